//! Answers of events made here, and answers of the scripted engine.

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Response, StatusCode, header};
use serde_json::{Value as Json, json};

use super::super::super::answer::heading::Heading;
use super::super::super::answer::stream::Writer as _;
use super::super::super::answer::whole::Whole as _;
use super::super::super::error::Error;
use super::super::super::shared::Shared;
use super::super::super::tests::{done, engine, events, loaded, piece, text};
use super::super::create;
use super::super::progress::Progress;
use super::super::settings::Settings;
use crate::engine::{Client, EngineError, Event, FinishReason, Likelihood, Outcome, Usage};
use crate::tools;

fn heading() -> Heading {
    Heading {
        id: "resp_0".to_owned(),
        created: 1,
        model: "m".to_owned(),
    }
}

fn progress(is_stream: bool) -> Progress {
    Progress::new(heading(), Settings::default(), is_stream)
}

/// Checks that events make the same response in a stream as in one piece. Returns the names of the events without
/// "response.", and the response.
fn both(given: &[Event]) -> (Vec<String>, Json) {
    let (mut whole, mut stream) = (progress(false), progress(true));
    let mut json = Json::Null;
    for event in given {
        stream.push(event.clone());
        if let Some(outcome) = whole.collect(event.clone()) {
            let whole = whole.json(&heading(), &outcome).expect("an answer");
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
fn a_sign_of_life_is_a_comment_after_the_beginning() {
    let mut stream = progress(true);
    stream.ping();
    let begun = events(&String::from_utf8(stream.take()).expect("text"));
    let names: Vec<_> = begun.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["response.created", "response.in_progress"]);
    stream.ping();
    assert_eq!(stream.take(), b":\n\n");
    stream.push(Event::Text("one".into()));
    let next = events(&String::from_utf8(stream.take()).expect("text"));
    assert_eq!(next[0].1["sequence_number"], 2);
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
