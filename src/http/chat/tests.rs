//! Answers of the scripted engine, and of events made here.

use std::time::Duration;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Response, StatusCode, header};
use serde_json::{Value as Json, json};

use super::super::answer::heading::Heading;
use super::super::answer::stream::Writer as _;
use super::super::answer::whole::Whole as _;
use super::super::error::Error;
use super::super::shared::Shared;
use super::super::tests::{done, engine, loaded, text};
use super::chunks::Chunks;
use super::completions;
use super::whole::Collected;
use crate::engine::{Client, Event, FinishReason, Likelihood, Outcome};
use crate::tools::{self, Piece};

async fn ask(shared: &Shared, body: &Json) -> Result<Response<Body>, Error> {
    let client = Client {
        name: "test".into(),
        user: 7,
    };
    let body = Bytes::from(body.to_string());
    completions(State(shared.clone()), Extension(client), body).await
}

fn question(more: &[(&str, Json)]) -> Json {
    let mut body =
        json!({"model": "scripted", "messages": [{"role": "user", "content": "one two three"}]});
    for (name, value) in more {
        body[*name] = value.clone();
    }
    body
}

/// Returns the chunks of a stream, which ends as it should.
fn chunks(stream: &str) -> Vec<Json> {
    let mut events: Vec<_> = stream.split_terminator("\n\n").collect();
    assert_eq!(events.pop(), Some("data: [DONE]"), "{stream}");
    let json = events.iter().map(|event| {
        let data = event.strip_prefix("data: ").expect("data");
        serde_json::from_str(data).expect("JSON")
    });
    json.collect()
}

/// Adds chunks up to a message, as clients do; also returns the reason of the end.
fn joined(chunks: &[Json]) -> (Json, Json) {
    let mut message = json!({"role": null, "content": null, "refusal": null});
    let mut reason = Json::Null;
    for chunk in chunks {
        assert_eq!(chunk["object"], "chat.completion.chunk");
        let Some(choice) = chunk["choices"].get(0) else {
            continue;
        };
        if !choice["finish_reason"].is_null() {
            reason = choice["finish_reason"].clone();
        }
        for (name, value) in choice["delta"].as_object().expect("a delta") {
            if name == "tool_calls" {
                let piece = &value[0];
                let calls = message.as_object_mut().expect("a message");
                let calls = calls.entry("tool_calls").or_insert_with(|| json!([]));
                let calls = calls.as_array_mut().expect("calls");
                let at =
                    usize::try_from(piece["index"].as_u64().expect("an index")).expect("small");
                if at == calls.len() {
                    calls.push(json!({"id": piece["id"], "type": piece["type"], "function": {"name": piece["function"]["name"], "arguments": ""}}));
                }
                append(
                    &mut calls[at]["function"]["arguments"],
                    &piece["function"]["arguments"],
                );
            } else {
                append(&mut message[name.as_str()], value);
            }
        }
    }
    (message, reason)
}

fn append(to: &mut Json, more: &Json) {
    let whole = to.as_str().unwrap_or_default().to_owned() + more.as_str().expect("a text");
    *to = whole.into();
}

/// Checks that events make the same message in chunks as in one piece; returns that.
fn both(events: &[Event]) -> Json {
    let heading = || Heading {
        id: "chatcmpl-0".to_owned(),
        created: 1,
        model: "m".to_owned(),
    };
    let (mut collected, mut streamed) = (Collected::default(), Chunks::new(heading(), true));
    let mut whole = Json::Null;
    for event in events {
        streamed.push(event.clone());
        if let Some(outcome) = collected.collect(event.clone()) {
            let json = collected.json(&heading(), &outcome).expect("an answer");
            whole = serde_json::from_slice(&json).expect("JSON");
        }
    }
    let stream = String::from_utf8(streamed.take()).expect("text");
    let chunks = chunks(&stream);
    let choice = &whole["choices"][0];
    let (message, reason) = joined(&chunks);
    assert_eq!(
        (&message, &reason),
        (&choice["message"], &choice["finish_reason"])
    );
    let of_chunks = chunks
        .iter()
        .filter_map(|chunk| chunk["choices"][0]["logprobs"]["content"].as_array());
    let of_chunks: Vec<_> = of_chunks.flatten().cloned().collect();
    let of_whole = choice["logprobs"]["content"].as_array().cloned();
    assert_eq!(of_chunks, of_whole.unwrap_or_default());
    let (last, others) = chunks.split_last().expect("chunks");
    assert_eq!(
        (&last["usage"], &last["choices"]),
        (&whole["usage"], &json!([]))
    );
    assert!(
        others
            .iter()
            .all(|chunk| chunk.get("usage") == Some(&Json::Null))
    );
    assert_eq!(
        others.last().map(|chunk| &chunk["ganglion"]),
        Some(&whole["ganglion"])
    );
    whole
}

#[test]
fn chunks_join_to_the_whole_answer() {
    let likelihood = |text: &str, logprob| Likelihood {
        token: 1,
        text: text.to_owned(),
        logprob,
        best: Vec::new(),
    };
    let best = vec![
        likelihood("\u{fffd}", -0.5),
        likelihood("x", f32::NEG_INFINITY),
    ];
    let whole = both(&[
        Event::Reasoning("Hm. ".into()),
        Event::Reasoning("So.".into()),
        Event::Likelihood(Likelihood {
            best,
            ..likelihood("é", -0.25)
        }),
        Event::Text("é\n".into()),
        Event::Text("\"two\"".into()),
        Event::Likelihood(likelihood("", -1.0)),
        Event::Done(done(FinishReason::Context)),
    ]);
    let choice = &whole["choices"][0];
    assert_eq!(choice["message"]["content"], "é\n\"two\"");
    assert_eq!(choice["message"]["reasoning_content"], "Hm. So.");
    assert_eq!(choice["finish_reason"], "length");
    assert_eq!(whole["ganglion"]["finish_reason"], "context");
    let first = &choice["logprobs"]["content"][0];
    assert_eq!(
        (&first["bytes"], &first["logprob"]),
        (&json!([195, 169]), &json!(-0.25))
    );
    assert_eq!(first["top_logprobs"][0]["bytes"], Json::Null);
    assert_eq!(first["top_logprobs"][1]["logprob"], json!(-9999.0));
    let usage = json!({"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12, "prompt_tokens_details": {"cached_tokens": 4}});
    assert_eq!(whole["usage"], usage);
    // Without any text.
    let whole = both(&[Event::Done(done(FinishReason::Stop))]);
    assert_eq!(whole["choices"][0]["message"]["content"], "");
}

#[test]
fn calls_are_streamed_as_pieces_and_joined() {
    let piece = |index, id: Option<&str>, name: Option<&str>, arguments: &str| {
        Event::Call(Piece {
            index,
            id: id.map(str::to_owned),
            name: name.map(str::to_owned),
            arguments: arguments.to_owned(),
        })
    };
    let calls = json!([
        {"id": "c0", "type": "function", "function": {"name": "look", "arguments": {"at": 1}}},
        {"id": "c1", "type": "function", "function": {"name": "stop", "arguments": {}}},
    ]);
    let calls = tools::read(&calls.to_string()).expect("calls");
    let end = || Outcome {
        calls: calls.clone(),
        ..done(FinishReason::ToolCalls)
    };
    let pieces = [
        piece(0, Some("c0"), Some("look"), ""),
        piece(0, None, None, "{\"at\""),
        piece(0, None, None, ":1}"),
        piece(1, Some("c1"), Some("stop"), "{}"),
        Event::Done(end()),
    ];
    let whole = both(&pieces);
    let choice = &whole["choices"][0];
    assert_eq!(
        (&choice["message"]["content"], &choice["finish_reason"]),
        (&Json::Null, &json!("tool_calls"))
    );
    let first = json!({"id": "c0", "type": "function", "function": {"name": "look", "arguments": "{\"at\":1}"}});
    assert_eq!(choice["message"]["tool_calls"][0], first);
    let with_text = [&[Event::Text("I look.".into())][..], &pieces[..]].concat();
    assert_eq!(
        both(&with_text)["choices"][0]["message"]["content"],
        "I look."
    );
}

#[tokio::test]
async fn a_question_is_answered_whole_and_as_a_stream() {
    let shared = engine("");
    loaded(&shared).await;
    let whole = ask(&shared, &question(&[])).await.expect("an answer");
    assert_eq!(whole.headers()[header::CONTENT_TYPE], "application/json");
    let whole: Json = serde_json::from_str(&text(whole).await).expect("JSON");
    let message = json!({"role": "assistant", "content": "sim: one two three", "refusal": null});
    assert_eq!(whole["choices"][0]["message"], message);
    assert_eq!(
        (&whole["model"], &whole["object"]),
        (&json!("scripted"), &json!("chat.completion"))
    );
    let stream = ask(&shared, &question(&[("stream", json!(true))])).await;
    let stream = stream.expect("an answer");
    assert_eq!(stream.headers()[header::CONTENT_TYPE], "text/event-stream");
    let chunks = chunks(&text(stream).await);
    assert_eq!(joined(&chunks), (message, json!("stop")));
    assert!(
        chunks.iter().all(|chunk| chunk.get("usage").is_none()),
        "the request wants no usage"
    );
    // All permits came back.
    let delivered = tokio::time::timeout(Duration::from_secs(5), shared.front.delivered());
    delivered.await.expect("a permit is missing");
}

#[tokio::test]
async fn errors_before_text_have_a_status_and_later_ones_are_events() {
    let shared = engine("fail_after=2");
    loaded(&shared).await;
    let refused = ask(&shared, &question(&[])).await.expect_err("it fails");
    assert_eq!(
        (refused.status, refused.kind),
        (StatusCode::INTERNAL_SERVER_ERROR, "server_error")
    );
    let stream = ask(&shared, &question(&[("stream", json!(true))])).await;
    let chunks = chunks(&text(stream.expect("it begins")).await);
    let error = &chunks.last().expect("chunks")["error"];
    assert_eq!(
        (&error["type"], &error["code"]),
        (&json!("server_error"), &json!("engine_failed"))
    );
    let long = question(&[(
        "messages",
        json!([{"role": "user", "content": "x ".repeat(5000)}]),
    )]);
    for stream in [false, true] {
        let mut long = long.clone();
        long["stream"] = stream.into();
        let refused = ask(&shared, &long).await.expect_err("it is too long");
        assert_eq!(refused.code, Some("context_length_exceeded"), "{refused:?}");
    }
    let other = question(&[("model", json!("gpt-4o"))]);
    let refused = ask(&shared, &other).await.expect_err("another model");
    assert_eq!(
        (refused.status, refused.code),
        (StatusCode::NOT_FOUND, Some("model_not_found"))
    );
    let loading = engine("load=60s");
    let refused = ask(&loading, &question(&[])).await.expect_err("it loads");
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.retry_after.is_some(), "{refused:?}");
}

#[tokio::test]
async fn a_reader_that_leaves_cancels_and_returns_its_permit() {
    let shared = engine("tokens=400,delay=5ms,rows=2");
    loaded(&shared).await;
    let long = question(&[("stream", json!(true)), ("max_tokens", json!(400))]);
    let one = ask(&shared, &long).await.expect("an answer");
    let two = ask(&shared, &long).await.expect("an answer");
    let refused = ask(&shared, &question(&[])).await.expect_err("a third");
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    drop((one, two));
    // Within the two seconds that one of them would have taken.
    let engine = shared.front.engine();
    let idle = tokio::time::timeout(Duration::from_secs(1), engine.idle());
    idle.await.expect("they were cancelled");
    shared.front.delivered().await;
}
