//! The engine thread's end: what it is asked, and what it tells everyone. It knows no model.

use std::sync::Arc;
use std::thread;
use std::time::Instant;

use super::control::Command;
use super::fair::Readiness;
use super::queue::Queue;
use super::request::Request;
use super::shared::Shared;
use crate::engine::caller::held::Held;
use crate::engine::caller::limits::Limits;
use crate::engine::caller::request::{Refusal, RequestError};
use crate::engine::caller::status::{State, Status};
use crate::engine::observe::live::Live;
use crate::engine::observe::progress::Progress;
use crate::engine::prompt::codec::Codec;
use crate::engine::prompt::encoder::Encoder;
use crate::engine::session::sessions::SessionId;
use crate::kv_store::{HostRules, Key, Place, Store, Wake, Whose};
use crate::runner::MemoryUse;
use crate::telemetry::Usage;

/// The engine thread's end of the queue. Dropping it tells those who wait that nobody is left.
#[derive(Debug)]
pub struct Inbox {
    pub(crate) shared: Arc<Shared>,
    pub(crate) queue: Arc<Queue>,
}

impl Inbox {
    /// Waits for the next command; `None` once the queue is closed and empty.
    #[must_use]
    pub fn next(&self) -> Option<Command> {
        self.queue.next(None)
    }

    /// The same, but for pages, which are to be looked after when they are `due`.
    pub(crate) fn next_by(&self, due: Option<Instant>) -> Option<Command> {
        self.queue.next(due)
    }

    /// Where pages are kept, if they are.
    pub(crate) fn pages(&self) -> Option<Arc<Store>> {
        self.shared.pages()
    }

    /// How many pages may be kept in the host's memory.
    pub(crate) fn host(&self) -> HostRules {
        self.shared.host()
    }

    /// What tells the engine thread that pages have moved.
    pub(crate) fn wake(&self) -> Wake {
        let queue = self.queue.clone();
        Arc::new(move || queue.moved())
    }

    /// Whose pages are those of a session, and which user's that is; `None` of one that has ended.
    pub(crate) fn whose(&self, session: SessionId) -> Option<(Whose, u32)> {
        self.shared.sessions().whose(session)
    }

    /// Whose pages a session may begin with, the best of them first.
    pub(crate) fn sources(&self, session: SessionId) -> Vec<Whose> {
        self.shared.sessions().sources(session)
    }

    /// Where pages are kept that a session may begin with: its own, or those of the one that it was branched from.
    pub(crate) fn origin(&self, session: SessionId) -> Option<Place> {
        self.shared.sessions().origin(session)
    }

    /// What pages depend on besides what computes them; `None` where that is not known.
    pub(crate) fn key(&self) -> Option<Key> {
        self.shared.recipe().as_ref()?.key()
    }

    /// What can be done now beside what runs: anything but turns, or a turn that `may` begin.
    #[must_use]
    pub(crate) fn poll(&self, may: impl Fn(&Request) -> Readiness) -> Option<Command> {
        self.queue.poll(may)
    }

    /// Whether turns have come since this was asked or the queue was polled, one of which is such.
    pub(crate) fn has_arrival(&self, is_it: impl Fn(&Request) -> bool) -> bool {
        self.queue.has_arrival(is_it)
    }

    /// Waits until then, or until a turn has come that is such, as `has_come` says.
    pub(crate) fn wait_for_arrival(
        &self,
        until: Instant,
        is_it: impl Fn(&Request) -> bool,
    ) -> bool {
        self.queue.wait_for_arrival(until, is_it)
    }

    /// Who is to rest.
    pub(crate) fn held(&self) -> Held {
        self.queue.held()
    }

    /// Waits a little, or for something to do: all those who are there rest.
    pub(crate) fn rest(&self) {
        self.queue.rest();
    }

    /// What is in force.
    pub(crate) fn limits(&self) -> Limits {
        self.shared.limits()
    }

    /// Where the engine notes that it gets on.
    pub(crate) fn progress(&self) -> &Progress {
        &self.shared.progress
    }

    /// A step of the load at start.
    pub(crate) fn load_step(&self) {
        self.progress().advance();
        self.progress().load_step();
    }

    /// What those who look are shown.
    pub(crate) fn live(&self) -> &Live {
        &self.shared.live
    }

    /// What everyone was told of the memory in use.
    pub(crate) fn told_memory(&self) -> MemoryUse {
        self.shared.memory()
    }

    /// Tells everyone how the load goes.
    pub fn publish(&self, change: impl FnMut(&mut Status)) {
        self.shared.publish(change);
    }

    /// From now on prompts are encoded as they are accepted, and checked against `context` tokens. What it returns
    /// encodes for the engine's own thread.
    #[must_use]
    pub fn ready(&self, codec: Codec, context: usize) -> Arc<Encoder> {
        let sampling = self.shared.recommended_sampling();
        let mut encoder = self.shared.encoder();
        let model = encoder.as_ref().map_or(0, |encoder| encoder.model()) + 1;
        let new = Arc::new(Encoder::new(codec, context, model, sampling));
        *encoder = Some(new.clone());
        drop(encoder);
        self.shared.publish_tools();
        // Nobody waits for it but who asks for a grammar before it is done.
        let prepares = new.clone();
        let thread = thread::Builder::new().name("grammars".into());
        let _ = thread.spawn(move || prepares.prepare());
        self.loaded(&State::Ready, "");
        new
    }

    /// The model could not be loaded: everyone who waits is told why, and so is everyone who asks later.
    pub fn fail(&self, detail: &str) {
        self.loaded(&State::Failed, detail);
        for request in self.queue.drain() {
            request.fail(
                RequestError::Refused(Refusal::NotReady(detail.to_owned())),
                Usage::default(),
            );
        }
    }

    fn loaded(&self, state: &State, detail: &str) {
        self.shared.publish(|status| {
            detail.clone_into(&mut status.detail);
            // A daemon that was told to stop while it loaded still stops.
            if status.state == State::Loading {
                status.state = state.clone();
            }
        });
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.queue.abandon();
    }
}
