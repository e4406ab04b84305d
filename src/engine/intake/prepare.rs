//! Turns that the engine thread gives to the threads that encode and compile: those that were accepted without a model, or for
//! another one, and those whose grammar is not compiled any more. They come back to the queue; the engine thread waits for none.

use std::sync::Arc;

use super::accept::unstarted;
use super::control::Control;
use super::queue::Queue;
use super::request::Request;
use crate::engine::caller::request::{Refusal, RequestError};
use crate::engine::generation::state::Generation;
use crate::engine::prompt::encoder::{Bound, Encoder};
use crate::engine::prompt::lane::Wanted;
use crate::telemetry::{FinishReason, Usage};

/// A turn that is away. Dropping it brings the turn back as it is.
struct Away {
    queue: Arc<Queue>,
    request: Option<Request>,
}

impl Away {
    fn fail(mut self, refusal: Refusal) {
        if let Some(request) = self.request.take() {
            request.fail(RequestError::Refused(refusal), Usage::default());
            self.queue.is_back();
        }
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            self.queue.bring_back(request);
        }
    }
}

/// Encodes a turn for a model, then compiles its grammar, each on the threads that do so.
pub(crate) fn request(queue: &Arc<Queue>, request: Request, encoder: &Arc<Encoder>) {
    queue.is_away();
    let away = Away {
        queue: queue.clone(),
        request: Some(request),
    };
    encode(away, encoder.clone());
}

fn encode(mut away: Away, encoder: Arc<Encoder>) {
    let Some(request) = &away.request else {
        return;
    };
    if request.is_encoded(&encoder) {
        compile(away, encoder);
        return;
    }
    let (id, client) = (request.id, (*request.client).clone());
    let shared = request.shared.clone();
    if let Err(error) = shared.encoders.start() {
        away.fail(unstarted(&error));
        return;
    }
    let work = move |_: &Wanted| {
        let tokens = away
            .request
            .as_mut()
            .map(|request| request.tokens(&encoder));
        match tokens {
            Some(Err(refusal)) => away.fail(refusal),
            _ => compile(away, encoder),
        }
    };
    // It has its threads.
    let _ = shared.encoders.submit(id, client, work);
}

fn compile(mut away: Away, encoder: Arc<Encoder>) {
    let Some(request) = &away.request else {
        return;
    };
    let Some(bound) = request.bound.clone().filter(Bound::has_grammar) else {
        return;
    };
    match encoder.has_compiled(request.client.user, &bound) {
        Ok(false) => {}
        Ok(true) => return,
        Err(refusal) => {
            away.fail(refusal);
            return;
        }
    }
    let (id, client) = (request.id, (*request.client).clone());
    let (shared, tools) = (request.shared.clone(), request.options.tools.clone());
    if let Err(error) = shared.grammars.start() {
        away.fail(unstarted(&error));
        return;
    }
    let work = move |wanted: &Wanted| {
        let Some(request) = &mut away.request else {
            return;
        };
        let user = request.client.user;
        let goes_on = || wanted.is_wanted() && request.ends().is_none();
        let checked = encoder.check(user, &bound, tools.as_deref(), goes_on);
        // It has its guide from here on: others may take the place of its grammar before it begins.
        let lent = checked.and_then(|()| request.lend(&encoder));
        match lent {
            Err(_) if request.ends().is_some() => {}
            Err(refusal) => away.fail(refusal),
            Ok(_) => {}
        }
    };
    let _ = shared.grammars.submit(id, client, work);
}

/// Encodes the prompt of an answer that goes on with another model, to see whether it can.
pub(crate) fn generation(
    queue: &Arc<Queue>,
    generation: Generation,
    encoder: &Arc<Encoder>,
    context: usize,
) {
    if generation.has_said_nothing() {
        request(queue, generation.into_request(), encoder);
        return;
    }
    queue.is_away();
    let (id, client) = (generation.id(), (*generation.request().client).clone());
    let (shared, encoder) = (generation.request().shared.clone(), encoder.clone());
    let mut away = AwayGeneration {
        queue: queue.clone(),
        generation: Some(generation),
    };
    let work = move |_: &Wanted| {
        let gone_on = away.generation.take();
        let gone_on = gone_on.and_then(|generation| generation.go_on_with(&encoder, context));
        if let Some(generation) = gone_on {
            away.queue.control(Control::GoOn(Box::new(generation)));
        }
    };
    let _ = shared.encoders.submit(id, client, work);
}

/// An answer that is away. Dropping it ends the answer: its work was removed, because it was cancelled or has no thread.
struct AwayGeneration {
    queue: Arc<Queue>,
    generation: Option<Generation>,
}

impl Drop for AwayGeneration {
    fn drop(&mut self) {
        if let Some(generation) = self.generation.take() {
            generation.finish(FinishReason::Cancelled, 1);
        }
        self.queue.is_back();
    }
}
