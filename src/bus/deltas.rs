//! A request's text for callers that take no descriptor: kept for their calls, and if they want as unicast signals.
//!
//! The bus daemon buffers signals that nobody reads, and stops the sender when it has too many: so they
//! are coalesced and capped, and the pipe remains the way for everything else.

use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep_until};
use zbus::object_server::SignalEmitter;

use super::accounts::Taking;
use super::error;
use super::output::Output;
use super::request::RequestSignals;
use crate::engine::{Event, Outcome};

/// The least time between two signals of a request.
const PAUSE: Duration = Duration::from_millis(50);

/// Keeps all text as far as there is room; says whether some was left out.
pub(super) async fn keep(
    events: &mut UnboundedReceiver<Event>,
    output: &Output,
    done: impl FnOnce(Outcome),
) -> bool {
    let mut truncated = false;
    loop {
        match events.recv().await {
            Some(Event::Likelihood(one)) => output.likelihoods().push(&one),
            // They are in the outcome.
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

/// The same, and emits all text as `Delta` signals as far as the owner takes them.
pub(super) async fn emit(
    events: &mut UnboundedReceiver<Event>,
    output: &Output,
    emitter: &SignalEmitter<'_>,
    owner: &Taking<'_>,
    mut done: impl FnMut(Outcome),
) -> bool {
    let (mut seq, mut text) = (0, String::new());
    let (mut last, mut truncated) = (false, false);
    let mut next = Instant::now();
    while !last {
        let said = events.recv().await;
        let mut event = Some(said.unwrap_or_else(|| Event::Done(error::engine_gone())));
        sleep_until(next).await;
        while let Some(said) = event {
            match said {
                Event::Text(more) if !truncated && output.push(&more) => text.push_str(&more),
                Event::Text(_) => truncated = true,
                Event::Likelihood(one) => output.likelihoods().push(&one),
                // They are in the outcome.
                Event::Reasoning(_) | Event::Call(_) => {}
                Event::Done(outcome) => {
                    last = true;
                    done(outcome);
                }
            }
            event = events.try_recv().ok();
        }
        if !text.is_empty() && !owner.takes().await {
            truncated = true;
            text.clear();
        }
        if !text.is_empty() {
            // A caller that has left is noticed elsewhere.
            let _ = emitter.delta(seq, &text).await;
            seq += 1;
            text.clear();
            next = Instant::now() + PAUSE;
        }
    }
    truncated
}
