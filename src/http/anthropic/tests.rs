//! Requests as they are decoded, answers of events made here, and answers of the scripted engine.

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Response, StatusCode, header};
use serde_json::{Value as Json, json};

use super::super::answer::heading::Heading;
use super::super::answer::stream::Writer as _;
use super::super::error::Error;
use super::super::shared::Shared;
use super::super::terms;
use super::super::tests::{done, engine, events as read_events, loaded, piece, text};
use super::events::Events;
use super::request::Asked;
use super::whole::Collected;
use super::{count, create};
use crate::engine::{Client, EngineError, Event, FinishReason, Options, Outcome, Usage};
use crate::front::{self, Config, GivenMessages};
use crate::tools;

fn asked(body: &Json) -> Result<Asked, Error> {
    Asked::read(body.to_string().as_bytes())
}

fn messages(messages: &Json) -> Result<GivenMessages, Error> {
    let asked = asked(&json!({"max_tokens": 9, "messages": messages}))?;
    Ok(asked.question.messages)
}

/// Returns the options of a request with a text and these fields.
fn options(mut body: Json) -> Result<Options, Error> {
    body["messages"] = json!([{"role": "user", "content": "Hi"}]);
    if body["max_tokens"].is_null() {
        body["max_tokens"] = json!(9);
    }
    let config = Config {
        seed: Some(1),
        ..Config::default()
    };
    let options = asked(&body)?.question.options;
    let read = front::request(&options.given, &config);
    read.map_err(|error| Error::of_front(error, &terms::MESSAGES, &options.fields))
}

fn look() -> Json {
    json!([{"name": "look", "description": "Looks.", "input_schema": {"type": "object", "properties": {}}, "cache_control": {}}])
}

fn image() -> Json {
    json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}})
}

#[test]
fn blocks_become_messages() {
    let body = json!({"max_tokens": 9, "system": [{"type": "text", "text": "Be ", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "short."}], "messages": [
        {"role": "user", "content": [{"type": "text", "text": "What is it?"}, image()]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": ""}, {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": 1}}, {"type": "tool_use", "id": "c2", "name": "stop",
            "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "a cat"}, image()]},
            {"type": "tool_result", "tool_use_id": "c2", "is_error": true}, {"type": "text", "text": "And now?"}, image()]},
        {"role": "assistant", "content": "A cat."},
        {"role": "user", "content": "Thanks."}]});
    let given = asked(&body).expect("they are right").question.messages;
    let said: Vec<_> = given
        .messages
        .iter()
        .map(|one| (one.role.name(), &*one.content))
        .collect();
    let expected = [
        ("system", "Be short."),
        ("user", "What is it?"),
        ("assistant", "I look."),
        ("tool", "a cat"),
        ("tool", ""),
        ("user", "And now?"),
        ("assistant", "A cat."),
        ("user", "Thanks."),
    ];
    assert_eq!(said, expected);
    let call = &given.messages[2];
    assert_eq!((&*call.reasoning, call.calls.len()), ("Hm.", 2));
    assert_eq!(
        (&*call.calls[0].arguments, &*call.calls[1].id),
        ("{\"at\":1}", "c2")
    );
    assert_eq!(given.messages[4].call_id.as_deref(), Some("c2"));
    let places: Vec<_> = given
        .images
        .iter()
        .map(|one| (one.message, one.at, one.given_as))
        .collect();
    // The message of the conversation, and the message and the block of the request.
    assert_eq!(places, [(1, 11, (0, 1)), (3, 5, (2, 0)), (5, 8, (2, 3))]);
}

#[test]
fn errors_of_messages_name_the_field() {
    let user = |content: Json| json!([{"role": "user", "content": content}]);
    let assistant = |content: Json| json!([{"role": "assistant", "content": content}]);
    let source = |source: Json| user(json!([{"type": "image", "source": source}]));
    #[rustfmt::skip] // a table
    let cases = [
        (json!("Hi"), "messages", "an array"),
        (json!([7]), "messages[0]", "wrong"),
        (json!([{"content": "x"}]), "messages[0].role", "missing"),
        (json!([{"role": "tool", "content": "x"}]), "messages[0].role", "\"tool\""),
        (json!([{"role": "user"}]), "messages[0].content", "missing"),
        (user(json!([{"type": "document"}])), "messages[0].content[0]", "\"document\""),
        (user(json!([{"type": "text", "txt": "x"}])), "messages[0].content[0].txt", "unknown field"),
        (user(json!([{"type": "thinking", "thinking": "x"}])), "messages[0].content[0]", "\"user\""),
        (assistant(json!([image()])), "messages[0].content[0]", "\"assistant\""),
        (assistant(json!([{"type": "tool_use", "id": "1", "name": "x", "input": 1}])), "messages[0].content[0].input", "an object"),
        (user(json!([{"type": "tool_result", "content": "x"}])), "messages[0].content[0].tool_use_id", "missing"),
        (source(json!({"type": "url", "url": "http://x"})), "messages[0].content[0].source", "no network"),
        (source(json!({"type": "base64", "media_type": "image/gif", "data": "AAAA"})), "messages[0].content[0].source", "image/gif"),
    ];
    for (said, param, why) in cases {
        let error = messages(&said).expect_err(param);
        assert_eq!(error.param.as_deref(), Some(param), "{error:?}");
        assert!(error.message.contains(why), "{error:?}");
    }
    let body = json!({"messages": [{"role": "user", "content": "x"}]});
    assert_eq!(
        asked(&body).expect_err("no length").param.as_deref(),
        Some("max_tokens")
    );
    assert!(Asked::to_count(body.to_string().as_bytes()).is_ok());
}

#[test]
fn options_reach_the_engine() {
    let read = options(
        json!({"max_tokens": 7, "temperature": 0, "top_k": 5, "stop_sequences": ["a", "b"],
        "thinking": {"type": "enabled", "budget_tokens": 4}, "metadata": {"user_id": "x"}}),
    )
    .expect("they are right");
    assert_eq!(
        (read.max_tokens, read.stop.len(), read.sampling.top_k),
        (7, 2, 5)
    );
    assert_eq!((read.thinking, read.thinking_tokens), (Some(true), Some(4)));
    let thinking = |body: Json| options(body).expect("thoughts").thinking;
    assert_eq!(thinking(json!({})), Some(false));
    assert_eq!(
        thinking(json!({"ganglion": {"thinking": true}})),
        Some(true)
    );
    assert_eq!(thinking(json!({"output_config": {"effort": "low"}})), None);
    assert_eq!(
        thinking(json!({"thinking": {"type": "disabled"}})),
        Some(false)
    );
    let format = json!({"type": "json_schema", "schema": {"type": "object"}});
    let read = options(json!({"output_config": {"format": format}})).expect("a format");
    assert!(format!("{:?}", read.grammar).starts_with("Some(LenientSchema("));
    let chosen = |choice: Json| {
        let read = options(json!({"tools": look(), "tool_choice": choice, "stop_sequences": []}));
        let tools = read.expect("tools").tools.expect("tools");
        (tools.choice().to_owned(), tools.parallel())
    };
    assert_eq!(chosen(json!(null)), ("auto".to_owned(), true));
    assert_eq!(
        chosen(json!({"type": "any", "disable_parallel_tool_use": true})),
        ("required".to_owned(), false)
    );
    assert_eq!(
        chosen(json!({"type": "tool", "name": "look"})),
        ("look".to_owned(), true)
    );
    assert_eq!(chosen(json!({"type": "none"})), ("none".to_owned(), true));
}

#[test]
fn errors_of_options_name_the_field() {
    #[rustfmt::skip] // a table
    let cases = [
        (json!({"max_tokens": 0}), "max_tokens", "\"max_tokens\" is 0"),
        (json!({"stop_sequences": [1]}), "stop_sequences", "an array"),
        (json!({"stop_sequences": ["x"], "tools": look()}), "stop_sequences", "\"tools\""),
        (json!({"top_k": -1}), "top_k", "\"top_k\" is -1"),
        (json!({"top_k": 1, "ganglion": {"top_k": 2}}), "ganglion.top_k", "the same"),
        (json!({"thinking": {"type": "deep"}}), "thinking.type", "\"deep\""),
        (json!({"thinking": {"type": "disabled", "budget_tokens": 1}}), "thinking.budget_tokens", "no thoughts"),
        (json!({"thinking": {"type": "enabled", "budget_tokens": -1}}), "thinking.budget_tokens", "is -1"),
        (json!({"thinking": {"type": "enabled"}, "ganglion": {"thinking": true}}), "thinking", "ganglion.thinking"),
        (json!({"tools": [{"type": "bash_20250124", "name": "bash"}]}), "tools[0]", "bash_20250124"),
        (json!({"tools": [{"input_schema": {}}]}), "tools[0].name", "missing"),
        (json!({"tool_choice": {"type": "any"}}), "tool_choice", "tools"),
        (json!({"tools": look(), "tool_choice": {"type": "required"}}), "tool_choice.type", "\"required\""),
        (json!({"tools": look(), "tool_choice": {"type": "tool"}}), "tool_choice.name", "missing"),
        (json!({"output_config": {"effort": "huge"}}), "output_config.effort", "\"huge\""),
        (json!({"output_config": {"format": {"type": "xml"}}}), "output_config.format.type", "\"xml\""),
    ];
    for (body, param, why) in cases {
        let error = options(body).expect_err(param);
        assert_eq!(error.param.as_deref(), Some(param), "{error:?}");
        assert!(error.message.contains(why), "{error:?}");
    }
}

fn heading() -> Heading {
    Heading {
        id: "msg_0".to_owned(),
        created: 1,
        model: "m".to_owned(),
    }
}

/// Checks that events make the same message in a stream as in one piece. Returns the names of the events, and the message.
fn both(given: &[Event]) -> (Vec<String>, Json) {
    let (mut collected, mut stream) = (Collected::default(), Events::new(heading(), 9));
    let mut whole = Json::Null;
    for event in given {
        stream.push(event.clone());
        if let Some(outcome) = collected.push(event.clone()) {
            let json = collected.json(&heading(), &outcome).expect("an answer");
            whole = serde_json::from_slice(&json).expect("JSON");
        }
    }
    let events = read_events(&String::from_utf8(stream.take()).expect("text"));
    assert_eq!(joined(&events), whole);
    (events.into_iter().map(|(name, _)| name).collect(), whole)
}

/// Puts the events of a stream together, as clients do.
fn joined(events: &[(String, Json)]) -> Json {
    let mut message = events[0].1["message"].clone();
    assert_eq!(message["usage"]["input_tokens"], 9);
    let mut inputs = String::new();
    for (name, event) in events {
        assert_eq!(event["type"], **name);
        let at = event["index"]
            .as_u64()
            .map_or(0, |at| usize::try_from(at).expect("small"));
        let content = message["content"].as_array_mut().expect("blocks");
        match &**name {
            "content_block_start" => {
                assert_eq!(at, content.len());
                content.push(event["content_block"].clone());
                inputs.clear();
            }
            "content_block_delta" => {
                let delta = &event["delta"];
                for field in ["text", "thinking"] {
                    if let Some(more) = delta[field].as_str() {
                        let before = content[at][field].as_str().expect("a text").to_owned();
                        content[at][field] = json!(before + more);
                    }
                }
                inputs += delta["partial_json"].as_str().unwrap_or_default();
            }
            "content_block_stop" if content[at]["type"] == "tool_use" => {
                content[at]["input"] = serde_json::from_str(&inputs).expect("JSON");
            }
            "message_delta" => {
                for field in ["stop_reason", "stop_sequence"] {
                    message[field] = event["delta"][field].clone();
                }
                message["usage"] = event["usage"].clone();
                message["ganglion"] = event["ganglion"].clone();
            }
            _ => {}
        }
    }
    message
}

#[test]
fn events_are_streamed_in_their_order() {
    let calls = json!([{"id": "c0", "type": "function", "function": {"name": "look", "arguments": {"at": 1}}},
        {"id": "c1", "type": "function", "function": {"name": "stop", "arguments": {}}}]);
    let end = Outcome {
        calls: tools::read(&calls.to_string()).expect("calls"),
        ..done(FinishReason::ToolCalls)
    };
    let (names, message) = both(&[
        Event::Reasoning("Hm. ".into()),
        Event::Reasoning("So.".into()),
        Event::Text("é\n".into()),
        Event::Text("two".into()),
        piece(0, Some("look"), ""),
        piece(0, None, "{\"at\""),
        piece(0, None, ":1}"),
        piece(1, Some("stop"), "{}"),
        Event::Done(end),
    ]);
    let (start, delta, stop) = (
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
    );
    #[rustfmt::skip] // in lines
    let expected = [
        "message_start",
        start, delta, delta, stop,
        start, delta, delta, stop,
        start, delta, delta, stop,
        start, delta, stop,
        "message_delta", "message_stop",
    ];
    assert_eq!(names, expected);
    let content = json!([
        {"type": "thinking", "thinking": "Hm. So.", "signature": ""},
        {"type": "text", "text": "é\ntwo"},
        {"type": "tool_use", "id": "c0", "name": "look", "input": {"at": 1}},
        {"type": "tool_use", "id": "c1", "name": "stop", "input": {}},
    ]);
    assert_eq!(message["content"], content);
    assert_eq!(message["stop_reason"], "tool_use");
    let usage = json!({"input_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 4, "output_tokens": 3});
    assert_eq!(message["usage"], usage);
}

#[test]
fn the_reason_of_the_end_has_anthropics_name() {
    let reason = |outcome: Outcome| {
        let (_, message) = both(&[Event::Done(outcome)]);
        assert_eq!(message["content"], json!([{"type": "text", "text": ""}]));
        (
            message["stop_reason"].clone(),
            message["stop_sequence"].clone(),
        )
    };
    assert_eq!(
        reason(done(FinishReason::Stop)),
        (json!("end_turn"), json!(null))
    );
    assert_eq!(reason(done(FinishReason::Length)).0, "max_tokens");
    assert_eq!(
        reason(done(FinishReason::Context)).0,
        "model_context_window_exceeded"
    );
    let stopped = Outcome {
        stop: Some("END".to_owned()),
        ..done(FinishReason::Stop)
    };
    assert_eq!(reason(stopped), (json!("stop_sequence"), json!("END")));

    let mut stream = Events::new(heading(), 9);
    stream.push(Event::Text("on".into()));
    let error = EngineError::Stopped.into();
    stream.push(Event::Done(Outcome::new(
        FinishReason::Error,
        Usage::default(),
        Some(error),
    )));
    let events = read_events(&String::from_utf8(stream.take()).expect("text"));
    let (name, last) = events.last().expect("events");
    assert_eq!(
        (&**name, &last["error"]["type"]),
        ("error", &json!("overloaded_error"))
    );
}

fn client() -> Extension<Client> {
    Extension(Client {
        name: "test".into(),
        user: 7,
    })
}

async fn ask(shared: &Shared, body: &Json) -> Response<Body> {
    let body = Bytes::from(body.to_string());
    create(State(shared.clone()), client(), body).await
}

async fn json_of(response: Response<Body>) -> Json {
    serde_json::from_str(&text(response).await).expect("JSON")
}

#[tokio::test]
async fn a_question_is_answered_whole_and_as_a_stream() {
    let shared = engine("");
    loaded(&shared).await;
    let said = json!([{"role": "user", "content": "one two three four"}]);
    let mut body = json!({"model": "scripted", "max_tokens": 50, "messages": said, "stop_sequences": [" three"]});
    let whole = ask(&shared, &body).await;
    assert_eq!(whole.headers()[header::CONTENT_TYPE], "application/json");
    let whole = json_of(whole).await;
    assert_eq!(
        whole["content"],
        json!([{"type": "text", "text": "sim: one two"}])
    );
    assert_eq!(
        (&whole["stop_reason"], &whole["stop_sequence"]),
        (&json!("stop_sequence"), &json!(" three"))
    );
    body["stream"] = json!(true);
    let stream = ask(&shared, &body).await;
    assert_eq!(stream.headers()[header::CONTENT_TYPE], "text/event-stream");
    let events = read_events(&text(stream).await);
    let prompt = &events[0].1["message"]["usage"]["input_tokens"];
    assert_eq!(*prompt, whole["usage"]["input_tokens"]);
    let texts = events
        .iter()
        .filter_map(|(_, event)| event["delta"]["text"].as_str());
    assert_eq!(texts.collect::<String>(), "sim: one two");

    let counted = Bytes::from(body.to_string());
    let counted = count(State(shared.clone()), client(), counted).await;
    assert_eq!(json_of(counted).await, json!({"input_tokens": prompt}));

    body["model"] = json!("another");
    let refused = ask(&shared, &body).await;
    assert_eq!(refused.status(), StatusCode::NOT_FOUND);
    let refused = json_of(refused).await;
    assert_eq!(
        (&refused["type"], &refused["error"]["type"]),
        (&json!("error"), &json!("not_found_error"))
    );
    body["model"] = json!("scripted");
    body["messages"] = json!([{"role": "assistant", "content": "x"}]);
    let refused = json_of(ask(&shared, &body).await).await;
    assert_eq!(refused["error"]["type"], "invalid_request_error");
    // All permits came back.
    let delivered =
        tokio::time::timeout(std::time::Duration::from_secs(5), shared.front.delivered());
    delivered.await.expect("a permit is missing");
}
