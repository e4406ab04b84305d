//! Answers of events made here, and answers of the scripted engine.

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Response, StatusCode, header};
use serde_json::{Value as Json, json};

use super::super::super::answer::heading::Heading;
use super::super::super::answer::stream::Writer as _;
use super::super::super::answer::whole::Whole as _;
use super::super::super::shared::Shared;
use super::super::super::tests::{done, engine, events as read_events, loaded, piece, text};
use super::super::events::Events;
use super::super::whole::Collected;
use super::super::{count, create};
use crate::engine::{Client, EngineError, Event, FinishReason, Outcome, Usage};
use crate::tools;

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
        if let Some(outcome) = collected.collect(event.clone()) {
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
        "message_start", "ping",
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
fn a_sign_of_life_is_a_ping_after_the_beginning() {
    let mut stream = Events::new(heading(), 9);
    stream.ping();
    let mut names = read_events(&String::from_utf8(stream.take()).expect("text"));
    stream.ping();
    stream.push(Event::Text("one".into()));
    stream.ping();
    stream.push(Event::Done(done(FinishReason::Stop)));
    let rest = read_events(&String::from_utf8(stream.take()).expect("text"));
    assert_eq!(rest[0], ("ping".to_owned(), json!({"type": "ping"})));
    names.extend(rest);
    assert_eq!(joined(&names)["content"][0]["text"], "one");
    let names: Vec<_> = names.iter().map(|(name, _)| &**name).collect();
    #[rustfmt::skip] // in lines
    let expected = [
        "message_start", "ping",
        "ping",
        "content_block_start", "content_block_delta",
        "ping",
        "content_block_stop", "message_delta", "message_stop",
    ];
    assert_eq!(names, expected);
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
