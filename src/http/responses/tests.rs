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
use super::super::tests::{done, engine, events, loaded, piece, text};
use super::create;
use super::progress::Progress;
use super::request::Asked;
use super::settings::Settings;
use crate::engine::{
    Client, EngineError, Event, FinishReason, Likelihood, Options, Outcome, Usage,
};
use crate::front::{self, Config, GivenMessages};
use crate::tools;

fn asked(body: &Json) -> Result<Asked, Error> {
    Asked::read(body.to_string().as_bytes())
}

fn messages(input: &Json) -> Result<GivenMessages, Error> {
    let asked = asked(&json!({"input": input}))?;
    Ok(asked.question.messages)
}

/// Returns the options of a request with a text and these fields.
fn options(mut body: Json) -> Result<Options, Error> {
    body["input"] = json!("Hi");
    let config = Config {
        seed: Some(1),
        ..Config::default()
    };
    let options = asked(&body)?.question.options;
    let read = front::request(&options.given, &config);
    read.map_err(|error| Error::of_front(error, &terms::RESPONSES, &options.fields))
}

fn look() -> Json {
    json!([{"type": "function", "name": "look", "description": "Looks.", "strict": true, "parameters": {"type": "object",
        "properties": {}}}])
}

#[test]
fn items_become_messages() {
    let given = messages(&json!([
        {"role": "developer", "content": "Be short."},
        {"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "What "},
            {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "low"},
            {"type": "input_text", "text": "is it?"}]},
        {"type": "reasoning", "id": "rs_0", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}],
            "encrypted_content": null},
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [
            {"type": "output_text", "text": "I look.", "annotations": [], "logprobs": []}]},
        {"type": "function_call", "id": "fc_2", "call_id": "c1", "name": "look", "arguments": "{\"at\": 1}", "status": "completed"},
        {"type": "function_call", "call_id": "c2", "name": "stop", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "a cat"},
            {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]},
        {"type": "function_call_output", "call_id": "c2", "output": ""},
        {"role": "assistant", "content": "A cat."},
        {"role": "assistant", "content": "Really."},
        {"role": "user", "content": "Thanks."},
    ]))
    .expect("they are right");
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
        ("assistant", "A cat."),
        ("assistant", "Really."),
        ("user", "Thanks."),
    ];
    assert_eq!(said, expected);
    let call = &given.messages[2];
    assert_eq!((&*call.reasoning, call.calls.len()), ("Hm.", 2));
    assert_eq!((&*call.calls[0].name, &*call.calls[1].id), ("look", "c2"));
    let places: Vec<_> = given
        .images
        .iter()
        .map(|one| (one.message, one.at, one.given_as))
        .collect();
    // The message of the conversation, and the item and the part of the request.
    assert_eq!(places, [(1, 5, (1, 1)), (3, 5, (6, 1))]);
    let asked = asked(&json!({"input": "Hi", "instructions": "Be short."})).expect("it is right");
    let said = asked.question.messages.messages;
    let said: Vec<_> = said
        .iter()
        .map(|one| (one.role.name(), &*one.content))
        .collect();
    assert_eq!(said, [("system", "Be short."), ("user", "Hi")]);
}

#[test]
fn errors_of_items_name_the_field() {
    let user = |content: Json| json!([{"role": "user", "content": content}]);
    #[rustfmt::skip] // a table
    let cases = [
        (json!(7), "input", "an array"),
        (json!([7]), "input[0]", "invalid type"),
        (json!([{"type": "web_search_call"}]), "input[0].type", "\"web_search_call\""),
        (json!([{"content": "x"}]), "input[0].role", "missing"),
        (json!([{"role": "tool", "content": "x"}]), "input[0].role", "function_call_output"),
        (json!([{"role": "critic", "content": "x"}]), "input[0].role", "unknown role"),
        (json!([{"role": "user"}]), "input[0].content", "missing"),
        (user(json!([{"type": "text", "text": "x"}])), "input[0].content[0]", "\"text\""),
        (user(json!([{"type": "input_text"}])), "input[0].content[0].text", "missing"),
        (user(json!([{"type": "output_text", "text": "x"}])), "input[0].content[0]", "output_text"),
        (user(json!([{"type": "input_image", "image_url": "http://x"}])), "input[0].content[0].image_url", "no network"),
        (user(json!([{"type": "input_image", "file_id": "f"}])), "input[0].content[0].file_id", "not stored"),
        (json!([{"type": "function_call", "call_id": "1", "name": "x"}]), "input[0].arguments", "missing"),
        (json!([{"type": "function_call_output", "call_id": "1"}]), "input[0].output", "missing"),
        (json!([{"type": "reasoning", "encrypted_content": "x"}]), "input[0].encrypted_content", "another service"),
        (json!([{"type": "function_call", "call_id": "1", "name": "x", "arguments": "1"}, {"role": "user", "content": "x"}]),
            "input[1]", "a JSON object"),
    ];
    for (input, param, why) in cases {
        let error = messages(&input).expect_err(param);
        assert_eq!(error.param.as_deref(), Some(param), "{error:?}");
        assert!(error.message.contains(why), "{error:?}");
    }
    let error = asked(&json!({"instructions": "x"})).expect_err("no input");
    assert_eq!(error.code, Some("missing_required_parameter"));
}

#[test]
fn options_reach_the_engine() {
    let read = options(json!({"max_output_tokens": 9, "temperature": 0, "include": ["message.output_text.logprobs",
        "reasoning.encrypted_content"], "top_logprobs": 3, "reasoning": {"effort": "minimal", "summary": "auto"},
        "ganglion": {"priority": "background", "seed": 8, "top_k": 5}}))
    .expect("they are right");
    assert_eq!((read.max_tokens, read.sampling.logprobs), (9, Some(3)));
    assert_eq!((read.sampling.seed, read.sampling.top_k), (8, 5));
    assert_eq!(
        (read.thinking, read.priority.name()),
        (Some(false), "background")
    );
    let format = |strict: Json| {
        let format = json!({"type": "json_schema", "name": "x", "schema": {"type": "object"}, "strict": strict});
        let read = options(json!({"text": {"format": format, "verbosity": "medium"}}));
        format!("{:?}", read.expect("a format").grammar)
    };
    assert!(format(json!(true)).starts_with("Some(JsonSchema("));
    assert!(format(json!(null)).starts_with("Some(LenientSchema("));
    let json = options(json!({"text": {"format": {"type": "json_object"}}})).expect("a format");
    assert_eq!(format!("{:?}", json.grammar), "Some(Json)");
    let read = options(
        json!({"tools": look(), "tool_choice": {"type": "function", "name": "look"},
        "parallel_tool_calls": false}),
    );
    let tools = read.expect("tools").tools.expect("tools");
    assert_eq!((tools.choice(), tools.parallel()), ("look", false));
    let offered: Json = serde_json::from_str(tools.given()).expect("JSON");
    assert_eq!(offered[0]["function"]["description"], "Looks.");
    assert_eq!(options(json!({"tools": []})).expect("none").tools, None);
}

#[test]
fn errors_of_options_name_the_field() {
    let format = |format: Json| json!({"text": {"format": format}});
    #[rustfmt::skip] // a table
    let cases = [
        (json!({"max_output_tokens": 0}), "max_output_tokens", "\"max_output_tokens\" is 0"),
        (json!({"stream": 1}), "stream", "true or false"),
        (json!({"store": true}), "store", "ganglion.session"),
        (json!({"previous_response_id": "resp_1"}), "previous_response_id", "ganglion.session"),
        (json!({"tools": [{"type": "web_search"}]}), "tools[0]", "\"web_search\""),
        (json!({"tools": [{"type": "function"}]}), "tools[0].name", "missing"),
        (json!({"tools": [{"type": "function", "function": {}}]}), "tools[0].function", "unknown field"),
        (json!({"tool_choice": "required"}), "tool_choice", "tools"),
        (json!({"tools": look(), "tool_choice": "look"}), "tool_choice", "\"look\""),
        (json!({"tools": look(), "tool_choice": {"type": "allowed_tools"}}), "tool_choice", "allowed_tools"),
        (format(json!({"type": "xml"})), "text.format", "\"xml\""),
        (format(json!({"type": "json_schema"})), "text.format", "no \"schema\""),
        (json!({"text": {"format": {"type": "json_object"}}, "ganglion": {"regex": "a"}}), "text.format", "\"ganglion.regex\""),
        (json!({"include": ["file_search_call.results"]}), "include", "file_search_call"),
        (json!({"top_logprobs": 2}), "top_logprobs", "include"),
        (json!({"reasoning": {"effort": "huge"}}), "reasoning.effort", "\"huge\""),
        (json!({"reasoning": {"effort": "low"}, "ganglion": {"thinking": true}}), "reasoning.effort", "ganglion.thinking"),
        (json!({"ganglion": {"seed": -1}}), "ganglion.seed", "is -1"),
    ];
    for (body, param, why) in cases {
        let error = options(body).expect_err(param);
        assert_eq!(error.param.as_deref(), Some(param), "{error:?}");
        assert!(error.message.contains(why), "{error:?}");
    }
}

fn progress(is_stream: bool) -> Progress {
    let heading = Heading {
        id: "resp_0".to_owned(),
        created: 1,
        model: "m".to_owned(),
    };
    Progress::new(heading, Settings::default(), is_stream)
}

/// Checks that events make the same response in a stream as in one piece. Returns the names of the events without
/// "response.", and the response.
fn both(given: &[Event]) -> (Vec<String>, Json) {
    let (mut whole, mut stream) = (progress(false), progress(true));
    let mut json = Json::Null;
    for event in given {
        stream.push(event.clone());
        if let Some(outcome) = whole.collect(event.clone()) {
            let whole = whole.json(&outcome).expect("an answer");
            json = serde_json::from_slice(&whole).expect("JSON");
        }
    }
    assert_eq!(whole.unsent(), 0);
    let events = events(&String::from_utf8(stream.take()).expect("text"));
    for (number, (name, event)) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
        assert_eq!(event["type"], **name);
    }
    let (_, last) = events.last().expect("events");
    assert_eq!(last["response"], json);
    check_items(&events, &json["output"]);
    let names = events
        .iter()
        .map(|(name, _)| name.trim_start_matches("response.").to_owned());
    (names.collect(), json)
}

/// Checks that deltas join to the items of the response.
fn check_items(events: &[(String, Json)], output: &Json) {
    let items = output.as_array().expect("items");
    let mut joined = vec![String::new(); items.len()];
    for (name, event) in events {
        let index = event["output_index"]
            .as_u64()
            .map(|index| usize::try_from(index).expect("small"));
        if let (Some(index), Some(delta)) = (index, event["delta"].as_str()) {
            joined[index] += delta;
        }
        if let (Some(index), "response.output_item.done") = (index, &**name) {
            assert_eq!(event["item"], items[index]);
        }
        if let Some(index) = index
            && !event["item_id"].is_null()
        {
            assert_eq!(event["item_id"], items[index]["id"]);
        }
    }
    for (item, joined) in items.iter().zip(joined) {
        let text = match item["type"].as_str() {
            Some("function_call") => &item["arguments"],
            _ => &item["content"][0]["text"],
        };
        assert_eq!(*text, joined);
    }
}

fn likelihood(text: &str, logprob: f32) -> Event {
    Event::Likelihood(Likelihood {
        token: 1,
        text: text.to_owned(),
        logprob,
        best: Vec::new(),
    })
}

#[test]
fn events_are_streamed_in_their_order() {
    let calls = json!([{"id": "c0", "type": "function", "function": {"name": "look", "arguments": {"at": 1}}}]);
    let end = Outcome {
        calls: tools::read(&calls.to_string()).expect("calls"),
        ..done(FinishReason::ToolCalls)
    };
    let (names, response) = both(&[
        likelihood("Hm.", -2.0),
        Event::Reasoning("Hm. ".into()),
        Event::Reasoning("So.".into()),
        likelihood("é", f32::NEG_INFINITY),
        Event::Text("é\n".into()),
        Event::Text("two".into()),
        piece(0, Some("look"), ""),
        piece(0, None, "{\"at\""),
        piece(0, None, ":1}"),
        Event::Done(end),
    ]);
    #[rustfmt::skip] // in lines
    let expected = [
        "created", "in_progress",
        "output_item.added", "content_part.added", "reasoning_text.delta", "reasoning_text.delta", "reasoning_text.done",
        "content_part.done", "output_item.done",
        "output_item.added", "content_part.added", "output_text.delta", "output_text.delta", "output_text.done",
        "content_part.done", "output_item.done",
        "output_item.added", "function_call_arguments.delta", "function_call_arguments.delta", "function_call_arguments.done",
        "output_item.done",
        "completed",
    ];
    assert_eq!(names, expected);
    let output = &response["output"];
    assert_eq!(output[0]["content"][0]["text"], "Hm. So.");
    let logprobs =
        json!([{"token": "é", "logprob": -9999.0, "bytes": [195, 169], "top_logprobs": []}]);
    assert_eq!(output[1]["content"][0]["logprobs"], logprobs);
    let call = json!({"type": "function_call", "id": "fc_002", "status": "completed", "call_id": "c0", "name": "look",
        "arguments": "{\"at\":1}"});
    assert_eq!(output[2], call);
    let usage = json!({"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0}, "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 12});
    assert_eq!(response["usage"], usage);
    assert_eq!(
        (&response["status"], &response["store"]),
        (&json!("completed"), &json!(false))
    );
    assert_eq!(response["ganglion"]["finish_reason"], "tool_calls");
}

#[test]
fn an_answer_that_is_cut_off_is_incomplete() {
    let (names, response) = both(&[
        Event::Text("on".into()),
        Event::Done(done(FinishReason::Context)),
    ]);
    assert_eq!(names.last().map(String::as_str), Some("incomplete"));
    assert_eq!(
        response["incomplete_details"]["reason"],
        "max_output_tokens"
    );
    assert_eq!(response["output"][0]["status"], "incomplete");
    assert_eq!(response["ganglion"]["finish_reason"], "context");
    let (_, response) = both(&[
        piece(0, Some("look"), "{\"a"),
        Event::Done(done(FinishReason::Length)),
    ]);
    assert_eq!(response["output"][0]["status"], "incomplete");
    // Without any text.
    let (_, response) = both(&[
        Event::Reasoning("Hm.".into()),
        Event::Done(done(FinishReason::Stop)),
    ]);
    assert_eq!(response["output"][1]["content"][0]["text"], "");

    let mut stream = progress(true);
    stream.push(Event::Text("on".into()));
    let error = EngineError::Stopped.into();
    stream.push(Event::Done(Outcome::new(
        FinishReason::Error,
        Usage::default(),
        Some(error),
    )));
    let events = events(&String::from_utf8(stream.take()).expect("text"));
    let (name, last) = events.last().expect("events");
    assert_eq!(
        (&**name, &last["response"]["status"]),
        ("response.failed", &json!("failed"))
    );
    assert_eq!(last["response"]["error"]["code"], "server_error");
}

async fn ask(shared: &Shared, body: &Json) -> Result<Response<Body>, Error> {
    let client = Client {
        name: "test".into(),
        user: 7,
    };
    let body = Bytes::from(body.to_string());
    create(State(shared.clone()), Extension(client), body).await
}

#[tokio::test]
async fn a_question_is_answered_whole_and_as_a_stream() {
    let shared = engine("");
    loaded(&shared).await;
    let mut body = json!({"model": "scripted", "input": "one two three", "temperature": 0.5, "text": {"verbosity": "medium"}});
    let whole = ask(&shared, &body).await.expect("an answer");
    assert_eq!(whole.headers()[header::CONTENT_TYPE], "application/json");
    let whole: Json = serde_json::from_str(&text(whole).await).expect("JSON");
    assert_eq!(
        whole["output"][0]["content"][0]["text"],
        "sim: one two three"
    );
    assert_eq!(
        (&whole["temperature"], &whole["text"]),
        (&json!(0.5), &body["text"])
    );
    assert_eq!(
        (&whole["tool_choice"], &whole["tools"]),
        (&json!("auto"), &json!([]))
    );
    body["stream"] = json!(true);
    let stream = ask(&shared, &body).await.expect("an answer");
    assert_eq!(stream.headers()[header::CONTENT_TYPE], "text/event-stream");
    let events = events(&text(stream).await);
    let (_, last) = events.last().expect("events");
    let said = &last["response"]["output"][0]["content"];
    assert_eq!(*said, whole["output"][0]["content"]);
    let missing = json!({"model": "gpt-4o", "input": "one"});
    let refused = ask(&shared, &missing).await.expect_err("another model");
    assert_eq!(refused.status, StatusCode::NOT_FOUND);
    let long = json!({"input": "x ".repeat(5000)});
    let refused = ask(&shared, &long).await.expect_err("it is too long");
    assert_eq!(refused.param.as_deref(), Some("input"));
}
