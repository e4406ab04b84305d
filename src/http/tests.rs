//! What the tests of several endpoints need: a scripted engine, outcomes, and the reading of streams.

use std::thread;

use axum::body::Body;
use axum::http::Response;
use http_body_util::BodyExt as _;
use serde_json::Value as Json;

use super::shared::Shared;
use crate::engine::sim::{self, Script};
use crate::engine::{
    Event, FinishReason, Limits, Outcome, State as EngineState, Usage, UserLimits, channel,
};
use crate::front::{Config, Front};
use crate::tools::Piece;

/// Starts a scripted engine.
pub(super) fn engine(script: &str) -> Shared {
    let limits = Limits {
        requests: 4,
        queue: 4,
        sessions: 4,
        prefill: crate::engine::Share::default(),
        grammar: crate::guide::Limits::USUAL,
        user: UserLimits {
            requests: 2,
            sessions: 2,
            queue_percent: 100,
            kv_percent: 100,
        },
    };
    let (handle, receiver) = channel(limits);
    let script: Script = script.parse().expect("a script");
    thread::spawn(move || sim::run(&receiver, &script));
    let front = Front::new(handle);
    front.configure(Config::default());
    Shared::new(front)
}

pub(super) async fn loaded(shared: &Shared) {
    let mut status = shared.front.engine().status();
    let ready = status.wait_for(|status| status.state == EngineState::Ready);
    ready.await.expect("it loads");
}

pub(super) async fn text(response: Response<Body>) -> String {
    let body = response.into_body().collect().await.expect("a body");
    String::from_utf8(body.to_bytes().into()).expect("text")
}

/// Returns the names and the data of the events of a stream.
pub(super) fn events(stream: &str) -> Vec<(String, Json)> {
    let event = |event: &str| {
        let (name, data) = event.split_once("\ndata: ").expect("data");
        let name = name.strip_prefix("event: ").expect("a name");
        (name.to_owned(), serde_json::from_str(data).expect("JSON"))
    };
    stream.split_terminator("\n\n").map(event).collect()
}

/// Returns a part of a call. The first of a call has the name.
pub(super) fn piece(index: usize, name: Option<&str>, arguments: &str) -> Event {
    Event::Call(Piece {
        index,
        id: name.map(|_| format!("c{index}")),
        name: name.map(str::to_owned),
        arguments: arguments.to_owned(),
    })
}

pub(super) fn done(reason: FinishReason) -> Outcome {
    let usage = Usage {
        prompt_tokens: 9,
        cached_tokens: 4,
        completion_tokens: 3,
        seed: 5,
        ..Usage::default()
    };
    Outcome::new(reason, usage, None)
}
