//! Delivery of text without a pipe: stores it for `Request.Read`, and sends it as unicast `Delta` signals if the caller wants
//! them.
//!
//! The bus daemon buffers unread signals, and stops a sender with too many. Signals are therefore coalesced and capped.

use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep_until};
use zbus::object_server::SignalEmitter;

use super::accounts::SignalFlow;
use super::error;
use super::output::Output;
use super::request::RequestSignals;
use crate::engine::{Event, Outcome};

/// The least time between two signals of a request.
const PAUSE: Duration = Duration::from_millis(50);

/// Stores the text as far as there is room; returns whether some was left out.
pub(super) async fn store(
    events: &mut UnboundedReceiver<Event>,
    output: &Output,
    done: impl FnOnce(Outcome),
) -> bool {
    let mut truncated = false;
    loop {
        match events.recv().await {
            Some(Event::Likelihood(likelihood)) => output.likelihoods().push(&likelihood),
            // The outcome has these.
            Some(Event::Reasoning(_) | Event::Call(_)) => {}
            Some(Event::Text(text)) => truncated = truncated || !output.push(&text),
            Some(Event::Done(outcome)) => {
                done(outcome);
                return truncated;
            }
            None => {
                done(error::engine_gone());
                return truncated;
            }
        }
    }
}

/// Stores the text, and emits it as `Delta` signals as far as the owner reads them; returns whether some was left out.
pub(super) async fn emit(
    events: &mut UnboundedReceiver<Event>,
    output: &Output,
    emitter: &SignalEmitter<'_>,
    owner: &SignalFlow<'_>,
    mut done: impl FnMut(Outcome),
) -> bool {
    let (mut seq, mut text) = (0, String::new());
    let (mut last, mut truncated) = (false, false);
    let mut next = Instant::now();
    while !last {
        let received = events.recv().await;
        let mut event = Some(received.unwrap_or_else(|| Event::Done(error::engine_gone())));
        sleep_until(next).await;
        while let Some(one) = event {
            match one {
                Event::Text(more) if !truncated && output.push(&more) => text.push_str(&more),
                Event::Text(_) => truncated = true,
                Event::Likelihood(likelihood) => output.likelihoods().push(&likelihood),
                // The outcome has these.
                Event::Reasoning(_) | Event::Call(_) => {}
                Event::Done(outcome) => {
                    last = true;
                    done(outcome);
                }
            }
            event = events.try_recv().ok();
        }
        if !text.is_empty() && !owner.ready().await {
            truncated = true;
            text.clear();
        }
        if !text.is_empty() {
            // `departures` notices a caller that has left.
            let _ = emitter.delta(seq, &text).await;
            seq += 1;
            text.clear();
            next = Instant::now() + PAUSE;
        }
    }
    truncated
}
