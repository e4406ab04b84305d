//! The callers' end of the engine: keeps the sessions, asks the engine's thread, and tells how it is.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{oneshot, watch};

use super::encoder::{Encoder, Rules};
use super::encoders::Encoders;
use super::inbox::Inbox;
use super::limits::Limits;
use super::live::{Live, Snapshot};
use super::queue::{Control, Queue};
use super::served::Recipe;
use super::session::{Said, SessionId, SessionStatus, Sessions};
use super::status::{State, Status};
use super::waits::Pace;
use super::{Cancel, Client, FinishReason, Refusal, RequestError, Usage};
use crate::tools::Formats;

/// State that callers and the engine thread share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) queue: Queue,
    sessions: Mutex<Sessions>,
    limits: Mutex<Limits>,
    /// In which models call tools.
    formats: Mutex<Arc<Formats>>,
    pub(super) encoders: Encoders,
    /// Present once a model is loaded.
    encoder: Mutex<Option<Arc<Encoder>>>,
    /// What that model was made from; a script has none.
    recipe: Mutex<Option<Recipe>>,
    status: watch::Sender<Status>,
    pub(super) live: Live,
    pub(super) pace: Pace,
    next_id: AtomicU64,
    /// Of every request queued or running, so that a stop can cancel them all.
    running: Mutex<Vec<(u64, Cancel)>>,
}

impl Shared {
    pub(super) fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn limits(&self) -> MutexGuard<'_, Limits> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What prompts and answers are held to.
    pub(super) fn rules(&self) -> Rules {
        let formats = self.formats.lock().unwrap_or_else(PoisonError::into_inner);
        Rules {
            grammar: self.limits().grammar,
            formats: formats.clone(),
        }
    }

    pub(super) fn running(&self) -> MutexGuard<'_, Vec<(u64, Cancel)>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn encoder(&self) -> MutexGuard<'_, Option<Arc<Encoder>>> {
        self.encoder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn recipe(&self) -> MutexGuard<'_, Option<Recipe>> {
        self.recipe.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn state(&self) -> State {
        self.status.borrow().state.clone()
    }

    /// Whether requests are accepted.
    pub(super) fn accepting(&self) -> Result<(), Refusal> {
        let status = self.status.borrow();
        match status.state {
            State::Loading | State::Ready => Ok(()),
            State::Failed => Err(Refusal::NotReady(status.detail.clone())),
            State::Stopping => Err(Refusal::NotReady("the daemon is stopping".into())),
        }
    }

    /// Why the queue is closed: what everyone was told, or else its engine has ended by itself.
    pub(super) fn closed(&self) -> Refusal {
        let ended = || Refusal::NotReady("the engine has ended; the service restarts it".into());
        self.accepting().err().unwrap_or_else(ended)
    }

    /// Bytes of memory that the model in force takes.
    pub(super) fn held(&self) -> u64 {
        let memory = self.status.borrow().memory;
        memory.weights + memory.kv + memory.activations
    }

    pub(super) fn publish(&self, change: impl FnOnce(&mut Status)) {
        self.status.send_modify(change);
    }
}

/// Makes the two ends of an engine.
#[must_use]
pub fn channel(limits: Limits) -> (Handle, Inbox) {
    let shared = Arc::new(Shared {
        queue: Queue::default(),
        sessions: Mutex::default(),
        limits: Mutex::new(limits),
        formats: Mutex::default(),
        encoders: Encoders::default(),
        encoder: Mutex::default(),
        recipe: Mutex::default(),
        status: watch::Sender::new(Status::default()),
        live: Live::default(),
        pace: Pace::default(),
        next_id: AtomicU64::new(1),
        running: Mutex::default(),
    });
    (
        Handle {
            shared: shared.clone(),
        },
        Inbox { shared },
    )
}

/// The engine as its callers know it; cheap to clone. No method waits for the model.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(super) shared: Arc<Shared>,
}

impl Handle {
    /// What is in force.
    #[must_use]
    pub fn limits(&self) -> Limits {
        *self.shared.limits()
    }

    /// From now on; what waits or is open already stays.
    pub fn set_limits(&self, limits: Limits) {
        *self.shared.limits() = limits;
    }

    /// The formats in which models call tools, from now on.
    pub fn set_formats(&self, formats: Formats) {
        let mut known = self
            .shared
            .formats
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *known = Arc::new(formats);
    }

    /// Whether the model in force can call tools; while there is none, nothing speaks against it.
    ///
    /// # Errors
    /// `NotSupported`.
    pub fn takes_tools(&self) -> Result<(), Refusal> {
        let encoder = self.shared.encoder().clone();
        match encoder {
            Some(encoder) => encoder.writing(&self.shared.rules().formats).map(drop),
            None => Ok(()),
        }
    }

    /// Opens a session, with a system message if there is one.
    ///
    /// # Errors
    /// `NotReady`, `TooManySessions`, `UserSessions`, or `PromptBytes` if no turn could follow such a message.
    pub fn open_session(
        &self,
        client: Client,
        system: Option<String>,
    ) -> Result<SessionId, Refusal> {
        self.accepting()?;
        if let (Some(encoder), Some(system)) = (self.shared.encoder().as_ref(), &system) {
            encoder.admit_bytes(system.len())?;
        }
        let limits = self.limits();
        let id = self.shared.sessions().open(client, system, &limits)?;
        self.publish_sessions();
        Ok(id)
    }

    /// Forgets a session. Its turn ends with it, whether it is being encoded, waits or is answered.
    pub fn close_session(&self, session: SessionId) {
        // The lock is not held while the turn ends, which asks for it.
        let closed = self.shared.sessions().close(session);
        let Ok(turn) = closed else {
            return;
        };
        if let Some((id, cancel)) = turn {
            self.cancel(id, &cancel);
        }
        self.shared.queue.forget(session);
        self.publish_sessions();
    }

    /// A caller has gone: what it still wanted encoded need not be.
    pub fn leave(&self, name: &str) {
        self.shared.encoders.remove_client(name);
    }

    /// Takes back the last turns of a session; what it held before them stays in the cache.
    ///
    /// # Errors
    /// `SessionClosed`, `SessionBusy`, or `Turns` if it has fewer.
    pub fn rewind(&self, session: SessionId, turns: u32) -> Result<(), Refusal> {
        let keep = self.shared.sessions().rewind(session, turns)?;
        if let Some(keep) = keep {
            self.shared.queue.rewind(session, keep);
        }
        Ok(())
    }

    /// Takes back all turns of a session; its system message stays.
    ///
    /// # Errors
    /// `SessionClosed`, `SessionBusy`.
    pub fn clear_session(&self, session: SessionId) -> Result<(), Refusal> {
        let taken = self.shared.sessions().clear(session)?;
        if taken {
            self.shared.queue.rewind(session, 0);
        }
        Ok(())
    }

    /// Drops the decode graph; what failures had disabled is tried again.
    ///
    /// # Errors
    /// `NotReady` without a model, `NotSupported` if this engine records nothing.
    pub async fn reset_graph(&self) -> Result<(), RequestError> {
        self.ask(Control::ResetGraph).await
    }

    /// The decode graph in DOT; empty before the first recording.
    ///
    /// # Errors
    /// As `reset_graph`, and `EngineFailed` if the device's driver does not tell.
    pub async fn dump_graph(&self) -> Result<String, RequestError> {
        self.ask(Control::DumpGraph).await
    }

    /// What the engine does at this moment.
    #[must_use]
    pub fn live(&self) -> Snapshot {
        self.shared.live.lock().clone()
    }

    /// The same for somebody who looks at how long operations take: steps of the next few seconds are timed for it, one a
    /// second.
    #[must_use]
    pub fn timed(&self) -> Snapshot {
        self.shared.live.look();
        self.live()
    }

    async fn ask<T>(
        &self,
        control: impl FnOnce(oneshot::Sender<Result<T, RequestError>>) -> Control,
    ) -> Result<T, RequestError> {
        self.loaded()?;
        let (reply, answer) = oneshot::channel();
        self.shared.queue.control(control(reply));
        answer
            .await
            .unwrap_or_else(|_| Err(self.shared.closed().into()))
    }

    /// `None` once the session is closed.
    #[must_use]
    pub fn session(&self, session: SessionId) -> Option<SessionStatus> {
        self.shared.sessions().status(session)
    }

    /// The messages of a session, oldest first; `None` once it is closed.
    #[must_use]
    pub fn history(&self, session: SessionId) -> Option<Vec<Said>> {
        self.shared.sessions().history(session)
    }

    /// Ends a request: at once if it still waits, else at its next token.
    pub fn cancel(&self, ticket: u64, cancel: &Cancel) {
        cancel.cancel();
        self.shared.encoders.remove(ticket);
        if let Some(turn) = self.shared.queue.remove(ticket) {
            turn.finish(FinishReason::Cancelled, Usage::default(), None);
        }
    }

    /// What the engine tells about itself, and every change of it.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<Status> {
        self.shared.status.subscribe()
    }

    /// Accepts no more requests; those accepted go on. Where the load has failed that stays the reason.
    pub fn begin_stop(&self) {
        self.shared.publish(|status| {
            if status.state != State::Failed {
                status.state = State::Stopping;
            }
        });
    }

    /// Why nothing is accepted any more.
    #[must_use]
    pub fn closed(&self) -> Refusal {
        self.shared.closed()
    }

    /// Cancels every request, waiting or running.
    pub fn cancel_all(&self) {
        let running = std::mem::take(&mut *self.shared.running());
        for (id, cancel) in running {
            self.cancel(id, &cancel);
        }
    }

    /// Lets the engine thread end once its queue is empty.
    pub fn close(&self) {
        self.shared.queue.close();
    }

    /// Returns when no request waits or runs.
    pub async fn idle(&self) {
        // The sender lives in `shared`, which `self` keeps.
        let _ = self
            .status()
            .wait_for(|status| status.queue_length == 0)
            .await;
    }

    /// Whether there is a model, and will be one.
    pub(super) fn loaded(&self) -> Result<(), Refusal> {
        if self.shared.state() == State::Loading {
            return Err(Refusal::NotReady("the model is still loading".into()));
        }
        self.accepting()
    }

    /// Whether it is worth asking: not once a load has failed, nor while it stops.
    ///
    /// # Errors
    ///
    /// [`Refusal::NotReady`] with the reason.
    pub fn accepting(&self) -> Result<(), Refusal> {
        self.shared.accepting()
    }

    /// Of the next request.
    pub(super) fn next_id(&self) -> u64 {
        self.shared.next_id.fetch_add(1, Ordering::Relaxed)
    }

    fn publish_sessions(&self) {
        let open = u32::try_from(self.shared.sessions().len()).unwrap_or(u32::MAX);
        self.shared.publish(|status| status.sessions = open);
    }
}
