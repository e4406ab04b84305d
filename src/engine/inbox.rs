//! The engine thread's end: what it is asked, and what it tells everyone. It knows no model.

use std::sync::Arc;
use std::thread;
use std::time::Instant;

use super::encoder::Encoder;
use super::fair::May;
use super::held::Held;
use super::live::Live;
use super::progress::Progress;
use super::queue::Queue;
use super::session::SessionId;
use super::shared::Shared;
use super::status::{State, Status};
use super::{Codec, Command, Limits, MemoryUse, Refusal, RequestError, Turn, Usage};
use crate::kv_store::{HostRules, Key, Place, Store, Wake, Whose};

/// The engine thread's end of the queue. Dropping it tells those who wait that nobody is left.
#[derive(Debug)]
pub struct Inbox {
    pub(super) shared: Arc<Shared>,
    pub(super) queue: Arc<Queue>,
}

impl Inbox {
    /// Waits for the next command; `None` once the queue is closed and empty.
    #[must_use]
    pub fn next(&self) -> Option<Command> {
        self.queue.next(None)
    }

    /// The same, but for pages, which are to be looked after when they are `due`.
    pub(super) fn next_by(&self, due: Option<Instant>) -> Option<Command> {
        self.queue.next(due)
    }

    /// Where pages are kept, if they are.
    pub(super) fn pages(&self) -> Option<Arc<Store>> {
        self.shared.pages()
    }

    /// How many pages may be kept in the host's memory.
    pub(super) fn host(&self) -> HostRules {
        self.shared.host()
    }

    /// What tells the engine thread that pages have moved.
    pub(super) fn wake(&self) -> Wake {
        let queue = self.queue.clone();
        Arc::new(move || queue.moved())
    }

    /// Whose pages are those of a session, and which user's that is; `None` of one that has ended.
    pub(super) fn whose(&self, session: SessionId) -> Option<(Whose, u32)> {
        self.shared.sessions().whose(session)
    }

    /// Whose pages a session may begin with, the best of them first.
    pub(super) fn sources(&self, session: SessionId) -> Vec<Whose> {
        self.shared.sessions().sources(session)
    }

    /// Where pages are kept that a session may begin with: its own, or those of the one that it was branched from.
    pub(super) fn origin(&self, session: SessionId) -> Option<Place> {
        self.shared.sessions().origin(session)
    }

    /// What pages depend on besides what computes them; `None` where that is not known.
    pub(super) fn key(&self) -> Option<Key> {
        self.shared.recipe().as_ref()?.key()
    }

    /// What can be done now beside what runs: anything but turns, or a turn that `may` begin.
    #[must_use]
    pub(super) fn poll(&self, may: impl Fn(&Turn) -> May) -> Option<Command> {
        self.queue.poll(may)
    }

    /// Whether turns have come since this was asked or the queue was polled, one of which is such.
    pub(super) fn has_come(&self, is_it: impl Fn(&Turn) -> bool) -> bool {
        self.queue.has_come(is_it)
    }

    /// Waits until then, or until a turn has come that is such, as `has_come` says.
    pub(super) fn comes_by(&self, until: Instant, is_it: impl Fn(&Turn) -> bool) -> bool {
        self.queue.comes_by(until, is_it)
    }

    /// Who is to rest.
    pub(super) fn held(&self) -> Held {
        self.queue.held()
    }

    /// Waits a little, or for something to do: all those who are there rest.
    pub(super) fn rest(&self) {
        self.queue.rest();
    }

    /// What is in force.
    pub(super) fn limits(&self) -> Limits {
        self.shared.limits()
    }

    /// Where the engine notes that it gets on.
    pub(super) fn progress(&self) -> &Progress {
        &self.shared.progress
    }

    /// A step of the load at start.
    pub(super) fn load_step(&self) {
        self.progress().advance();
        self.progress().load_step();
    }

    /// What those who look are shown.
    pub(super) fn live(&self) -> &Live {
        &self.shared.live
    }

    /// What everyone was told of the memory in use.
    pub(super) fn told_memory(&self) -> MemoryUse {
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
        for turn in self.queue.drain() {
            turn.fail(
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
