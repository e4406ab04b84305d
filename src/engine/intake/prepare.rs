//! Turns that the engine thread gives to the threads that encode and compile: those that were accepted without a model, or for
//! another one, and those whose grammar is not compiled any more. They come back to the queue; the engine thread waits for none.

use std::sync::Arc;

use super::accept::unstarted;
use super::control::Control;
use super::queue::Queue;
use super::turn::Turn;
use crate::engine::caller::request::{Refusal, RequestError};
use crate::engine::generation::state::Entry;
use crate::engine::prompt::encoder::{Bound, Encoder};
use crate::engine::prompt::lane::Wanted;
use crate::telemetry::{FinishReason, Usage};

/// A turn that is away. Dropping it brings the turn back as it is.
struct Away {
    queue: Arc<Queue>,
    turn: Option<Turn>,
}

impl Away {
    fn fail(mut self, refusal: Refusal) {
        if let Some(turn) = self.turn.take() {
            turn.fail(RequestError::Refused(refusal), Usage::default());
            self.queue.is_back();
        }
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        if let Some(turn) = self.turn.take() {
            self.queue.bring_back(turn);
        }
    }
}

/// Encodes a turn for a model, then compiles its grammar, each on the threads that do so.
pub(crate) fn turn(queue: &Arc<Queue>, turn: Turn, encoder: &Arc<Encoder>) {
    queue.is_away();
    let away = Away {
        queue: queue.clone(),
        turn: Some(turn),
    };
    encode(away, encoder.clone());
}

fn encode(mut away: Away, encoder: Arc<Encoder>) {
    let Some(turn) = &away.turn else {
        return;
    };
    if turn.is_encoded(&encoder) {
        compile(away, encoder);
        return;
    }
    let (id, client) = (turn.id, (*turn.client).clone());
    let shared = turn.shared.clone();
    if let Err(error) = shared.encoders.start() {
        away.fail(unstarted(&error));
        return;
    }
    let work = move |_: &Wanted| {
        let tokens = away.turn.as_mut().map(|turn| turn.tokens(&encoder));
        match tokens {
            Some(Err(refusal)) => away.fail(refusal),
            _ => compile(away, encoder),
        }
    };
    // It has its threads.
    let _ = shared.encoders.submit(id, client, work);
}

fn compile(mut away: Away, encoder: Arc<Encoder>) {
    let Some(turn) = &away.turn else {
        return;
    };
    let Some(bound) = turn.bound.clone().filter(Bound::has_grammar) else {
        return;
    };
    match encoder.has_compiled(turn.client.user, &bound) {
        Ok(false) => {}
        Ok(true) => return,
        Err(refusal) => {
            away.fail(refusal);
            return;
        }
    }
    let (id, client) = (turn.id, (*turn.client).clone());
    let (shared, tools) = (turn.shared.clone(), turn.options.tools.clone());
    if let Err(error) = shared.grammars.start() {
        away.fail(unstarted(&error));
        return;
    }
    let work = move |wanted: &Wanted| {
        let Some(turn) = &mut away.turn else {
            return;
        };
        let user = turn.client.user;
        let goes_on = || wanted.is_wanted() && turn.ends().is_none();
        let checked = encoder.check(user, &bound, tools.as_deref(), goes_on);
        // It has its guide from here on: others may take the place of its grammar before it begins.
        let lent = checked.and_then(|()| turn.lend(&encoder));
        match lent {
            Err(_) if turn.ends().is_some() => {}
            Err(refusal) => away.fail(refusal),
            Ok(_) => {}
        }
    };
    let _ = shared.grammars.submit(id, client, work);
}

/// Encodes the prompt of an answer that goes on with another model, to see whether it can.
pub(crate) fn entry(queue: &Arc<Queue>, entry: Entry, encoder: &Arc<Encoder>, context: usize) {
    if entry.has_said_nothing() {
        turn(queue, entry.into_turn(), encoder);
        return;
    }
    queue.is_away();
    let (id, client) = (entry.id(), (*entry.turn().client).clone());
    let (shared, encoder) = (entry.turn().shared.clone(), encoder.clone());
    let mut away = AwayEntry {
        queue: queue.clone(),
        entry: Some(entry),
    };
    let work = move |_: &Wanted| {
        let gone_on = away.entry.take();
        let gone_on = gone_on.and_then(|entry| entry.go_on_with(&encoder, context));
        if let Some(entry) = gone_on {
            away.queue.control(Control::GoOn(Box::new(entry)));
        }
    };
    let _ = shared.encoders.submit(id, client, work);
}

/// An answer that is away. Dropping it ends the answer: its work was removed, because it was cancelled or has no thread.
struct AwayEntry {
    queue: Arc<Queue>,
    entry: Option<Entry>,
}

impl Drop for AwayEntry {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            entry.finish(FinishReason::Cancelled, 1);
        }
        self.queue.is_back();
    }
}
