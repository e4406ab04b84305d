//! The engine thread's end of the channel, whose other end is the callers' `Handle`.
//!
//! It publishes whether there is a model, and knows nothing of the model itself.

use std::sync::Arc;
use std::thread;

use super::control::Command;
use super::queue::Queue;
use super::shared::Shared;
use crate::engine::caller::request::{Refusal, RequestError};
use crate::engine::caller::status::State;
use crate::engine::picture::sight::Sight;
use crate::engine::prompt::codec::Codec;
use crate::engine::prompt::encoder::Encoder;
use crate::telemetry::Usage;

/// Receives the requests of all callers. Dropping it fails the requests that still wait.
#[derive(Debug)]
pub struct Receiver {
    pub(crate) shared: Arc<Shared>,
    pub(crate) queue: Arc<Queue>,
}

impl Receiver {
    /// Waits for the next command. Returns `None` once the queue is closed and empty.
    #[must_use]
    pub fn next(&self) -> Option<Command> {
        self.queue.next(None)
    }

    /// Publishes that there is a model. From then on prompts are encoded when they are accepted, and must fit `context`
    /// tokens. Returns the encoder of that model.
    #[must_use]
    pub fn ready(&self, codec: Codec, context: usize) -> Arc<Encoder> {
        self.ready_with(codec, context, None)
    }

    /// Publishes, as `ready`, that there is a model, which sees images if there is a `sight`.
    pub(crate) fn ready_with(
        &self,
        codec: Codec,
        context: usize,
        sight: Option<Arc<Sight>>,
    ) -> Arc<Encoder> {
        let sampling = self.shared.recommended_sampling();
        let mut encoder = self.shared.encoder();
        let model = encoder.as_ref().map_or(0, |encoder| encoder.model()) + 1;
        let new = Encoder::new(codec, context, model, sampling).with_sight(sight);
        let new = Arc::new(new);
        *encoder = Some(new.clone());
        drop(encoder);
        self.shared.publish_tools();
        // Only a request with a grammar waits for this thread.
        let prepares = new.clone();
        let thread = thread::Builder::new().name("grammars".into());
        let _ = thread.spawn(move || prepares.prepare());
        self.finish_loading(&State::Ready, "");
        new
    }

    /// Publishes that the model is there again, with the encoder that it had before.
    pub(crate) fn ready_again(&self) {
        self.shared.publish_tools();
        self.finish_loading(&State::Ready, "");
    }

    /// Publishes that the model is loaded again.
    pub(crate) fn loads_again(&self) {
        self.shared.publish(|status| {
            if status.state == State::Idle {
                status.state = State::Loading;
                status.detail.clear();
                status.loaded_percent = None;
            }
        });
    }

    /// Publishes that the weights are released, and why.
    pub(crate) fn idle(&self, detail: &str) {
        self.finish_loading(&State::Idle, detail);
    }

    /// Publishes that the model could not be loaded, and fails the requests that wait. Later requests fail with the same
    /// reason.
    pub fn fail(&self, detail: &str) {
        self.finish_loading(&State::Failed, detail);
        self.refuse_waiting(&Refusal::NotReady(detail.to_owned()));
    }

    /// Fails the requests that wait.
    pub(crate) fn refuse_waiting(&self, refusal: &Refusal) {
        for request in self.queue.drain() {
            request.fail(RequestError::Refused(refusal.clone()), Usage::default());
        }
    }

    fn finish_loading(&self, state: &State, detail: &str) {
        self.shared.publish(|status| {
            detail.clone_into(&mut status.detail);
            status.loaded_percent = None;
            // A daemon that began to stop meanwhile still stops.
            if matches!(status.state, State::Loading | State::Ready | State::Idle) {
                status.state = state.clone();
            }
        });
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.queue.abandon();
    }
}
