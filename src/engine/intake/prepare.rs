//! Requests that the engine thread lends to the threads that encode prompts and compile grammars.
//!
//! These requests were accepted before there was a model, or for another model, or their compiled grammar was evicted. They
//! come back to the queue, and the engine thread waits for none of them.

use std::sync::Arc;

use super::accept::unstarted;
use super::control::Control;
use super::queue::Queue;
use super::request::Request;
use crate::engine::caller::request::{Refusal, RequestError};
use crate::engine::generation::state::Generation;
use crate::engine::picture::decode;
use crate::engine::picture::picture::Picture;
use crate::engine::prompt::encoder::{Bound, Encoder};
use crate::engine::prompt::workers::Interest;
use crate::telemetry::{FinishReason, Usage};
use crate::vision::ImageError;

/// A lent request. Dropping it queues the request again, as it is.
struct Loan {
    queue: Arc<Queue>,
    number: u64,
    request: Option<Request>,
}

impl Loan {
    fn fail(mut self, refusal: Refusal) {
        if let Some(request) = self.request.take() {
            request.fail(RequestError::Refused(refusal), Usage::default());
            self.queue.end_loan(self.number);
        }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            self.queue.bring_back(self.number, request);
        }
    }
}

/// Encodes a request for a model, then compiles its grammar, each on the threads for that.
pub(crate) fn request(queue: &Arc<Queue>, request: Request, encoder: &Arc<Encoder>) {
    let prompt = request.prompt.as_ref();
    let pictures = prompt.map_or(&[][..], |prompt| &prompt.pictures);
    let loan = Loan {
        queue: queue.clone(),
        number: queue.lend(pictures),
        request: Some(request),
    };
    encode(loan, encoder.clone());
}

fn encode(mut loan: Loan, encoder: Arc<Encoder>) {
    let Some(request) = &loan.request else {
        return;
    };
    if request.is_encoded(&encoder) {
        compile(loan, encoder);
        return;
    }
    let (id, client) = (request.id, (*request.client).clone());
    let shared = request.shared.clone();
    if let Err(error) = shared.encoders.start() {
        loan.fail(unstarted(&error));
        return;
    }
    let work = move |_: &Interest| {
        let tokens = loan
            .request
            .as_mut()
            .map(|request| request.tokens(&encoder));
        match tokens {
            Some(Err(refusal)) => loan.fail(refusal),
            _ => compile(loan, encoder),
        }
    };
    // The threads have started.
    let _ = shared.encoders.submit(id, client, work);
}

fn compile(mut loan: Loan, encoder: Arc<Encoder>) {
    let Some(request) = &loan.request else {
        return;
    };
    let Some(bound) = request.bound.clone().filter(Bound::has_grammar) else {
        return;
    };
    match encoder.has_compiled(request.client.user, &bound) {
        Ok(false) => {}
        Ok(true) => return,
        Err(refusal) => {
            loan.fail(refusal);
            return;
        }
    }
    let (id, client) = (request.id, (*request.client).clone());
    let (shared, tools) = (request.shared.clone(), request.options.tools.clone());
    if let Err(error) = shared.grammars.start() {
        loan.fail(unstarted(&error));
        return;
    }
    let work = move |wanted: &Interest| {
        let Some(request) = &mut loan.request else {
            return;
        };
        let user = request.client.user;
        let goes_on = || wanted.is_wanted() && request.ends().is_none();
        let checked = encoder.check(user, &bound, tools.as_deref(), goes_on);
        // The request gets its guide here, because the grammar can be evicted before it begins.
        let lent = checked.and_then(|()| request.lend(&encoder));
        match lent {
            Err(_) if request.ends().is_some() => {}
            Err(refusal) => loan.fail(refusal),
            Ok(_) => {}
        }
    };
    let _ = shared.grammars.submit(id, client, work);
}

/// Encodes the prompt of a generation for another model, and continues it if its tokens mean the same there.
pub(crate) fn generation(
    queue: &Arc<Queue>,
    generation: Generation,
    encoder: &Arc<Encoder>,
    context: usize,
) {
    if generation.is_unanswered() {
        request(queue, generation.into_request(), encoder);
        return;
    }
    let (id, client) = (generation.id(), (*generation.request().client).clone());
    let number = queue.lend(generation.pictures());
    let (shared, encoder) = (generation.request().shared.clone(), encoder.clone());
    let mut loan = GenerationLoan {
        queue: queue.clone(),
        number,
        generation: Some(generation),
    };
    let work = move |_: &Interest| {
        let continued = loan.generation.take();
        let continued =
            continued.and_then(|generation| generation.continue_with(&encoder, context));
        if let Some(generation) = continued {
            loan.queue.control(Control::Continue(Box::new(generation)));
        }
    };
    let _ = shared.encoders.submit(id, client, work);
}

/// Decodes the images of a generation that have neither pixels nor embeddings, on a thread of low priority. Then it comes
/// back: as a request, or, if its answer has begun, as a generation without a slot.
pub(crate) fn pixels(queue: &Arc<Queue>, generation: Generation, encoder: &Arc<Encoder>) {
    let (id, client) = (generation.id(), (*generation.request().client).clone());
    let number = queue.lend(generation.pictures());
    let (shared, encoder) = (generation.request().shared.clone(), encoder.clone());
    let pictures = generation.pictures().to_vec();
    let decode = move |wanted: &Interest, request: &Request| {
        let stop = || !wanted.is_wanted() || request.ends().is_some();
        decode(&pictures, &encoder, &stop)
    };
    if generation.is_unanswered() {
        let loan = Loan {
            queue: queue.clone(),
            number,
            request: Some(generation.into_request()),
        };
        let work = move |wanted: &Interest| {
            let decoded = (loan.request.as_ref()).map(|request| decode(wanted, request));
            if let Some(Err(refusal)) = decoded {
                loan.fail(refusal);
            }
        };
        let _ = shared.encoders.submit(id, client, work);
        return;
    }
    let mut loan = GenerationLoan {
        queue: queue.clone(),
        number,
        generation: Some(generation),
    };
    let work = move |wanted: &Interest| {
        let Some(generation) = loan.generation.take() else {
            return;
        };
        match decode(wanted, generation.request()) {
            Err(refusal) => generation.fail(RequestError::Refused(refusal)),
            Ok(()) => (loan.queue).control(Control::Continue(Box::new(generation))),
        }
    };
    let _ = shared.encoders.submit(id, client, work);
}

/// Decodes images, unless `stop` returns true: then the request has ended.
fn decode(
    pictures: &[Arc<Picture>],
    encoder: &Encoder,
    stop: &dyn Fn() -> bool,
) -> Result<(), Refusal> {
    let Some(sight) = encoder.sight() else {
        let why = "the model has no vision tower";
        return Err(Refusal::NotSupported(why.into()));
    };
    for picture in pictures.iter().filter(|picture| picture.is_bare()) {
        let Picture { received, plan, .. } = &**picture;
        match decode::pixels(received, &sight.processor, plan, stop) {
            Ok(pixels) => picture.set_pixels(Some(Arc::new(pixels))),
            Err(ImageError::Cancelled) => return Ok(()),
            Err(error) => return Err(Refusal::InvalidMessages(error.to_string())),
        }
    }
    Ok(())
}

/// A lent generation. Dropping it ends the answer: its work was removed because it was cancelled or has no thread.
struct GenerationLoan {
    queue: Arc<Queue>,
    number: u64,
    generation: Option<Generation>,
}

impl Drop for GenerationLoan {
    fn drop(&mut self) {
        if let Some(generation) = self.generation.take() {
            generation.finish(FinishReason::Cancelled, 1);
        }
        self.queue.end_loan(self.number);
    }
}
