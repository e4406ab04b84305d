//! The callers' end of the engine: checks, encodes and queues requests, and keeps the sessions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::{mpsc, oneshot, watch};

use super::encoder::{Encoded, Encoder};
use super::inbox::Inbox;
use super::limits::Limits;
use super::live::{Live, Snapshot};
use super::queue::{Control, Queue, Turn};
use super::request::check;
use super::served::Recipe;
use super::session::{Answer, Past, SessionId, SessionStatus, Sessions};
use super::status::{State, Status};
use super::{
    Cancel, Client, FinishReason, Message, Options, Refusal, RequestError, Role, Ticket, Usage,
};

/// State that callers and the engine thread share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) queue: Queue,
    sessions: Mutex<Sessions>,
    limits: Mutex<Limits>,
    /// Present once a model is loaded.
    encoder: Mutex<Option<Arc<Encoder>>>,
    /// What that model was made from; a script has none.
    recipe: Mutex<Option<Recipe>>,
    status: watch::Sender<Status>,
    pub(super) live: Live,
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
        encoder: Mutex::default(),
        recipe: Mutex::default(),
        status: watch::Sender::new(Status::default()),
        live: Live::default(),
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

    /// Queues one conversation; nothing of it is kept afterwards.
    ///
    /// # Errors
    /// `NotReady`, `Busy`, `UserQueue`, `InvalidMessages`, `ContextFull`.
    pub async fn generate(
        &self,
        client: Client,
        messages: Vec<Message>,
        options: Options,
    ) -> Result<Ticket, Refusal> {
        self.accepting()?;
        check(&messages)?;
        let prompt = self
            .encode(messages.clone(), None, options.thinking)
            .await?;
        self.enqueue(client, None, messages, prompt, options)
    }

    /// Opens a session, with a system message if there is one.
    ///
    /// # Errors
    /// `NotReady`, `TooManySessions`, `UserSessions`.
    pub fn open_session(
        &self,
        client: Client,
        system: Option<String>,
    ) -> Result<SessionId, Refusal> {
        self.accepting()?;
        let limits = self.limits();
        let id = self.shared.sessions().open(client, system, &limits)?;
        self.publish_sessions();
        Ok(id)
    }

    /// Queues one user turn of a session; only what its KV does not hold yet will be prefilled.
    ///
    /// # Errors
    /// `NotReady`, `Busy`, `UserQueue`, `SessionBusy`, `SessionClosed`, `InvalidMessages`, `ContextFull`.
    pub async fn send(
        &self,
        session: SessionId,
        text: String,
        options: Options,
    ) -> Result<Ticket, Refusal> {
        self.accepting()?;
        let Past {
            client,
            mut messages,
            last,
        } = self.shared.sessions().begin_turn(session)?;
        messages.push(Message {
            role: Role::User,
            content: text,
        });
        let sent = async {
            check(&messages)?;
            let prompt = self
                .encode(messages.clone(), last, options.thinking)
                .await?;
            self.enqueue(client, Some(session), messages, prompt, options)
        };
        let result = sent.await;
        if result.is_err() {
            self.shared.sessions().end_turn(session, None);
        }
        result
    }

    /// Forgets a session. Its running request should be cancelled first: it goes on without it.
    pub fn close_session(&self, session: SessionId) {
        if self.shared.sessions().close(session) {
            self.shared.queue.forget(session);
            self.publish_sessions();
        }
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

    async fn ask<T>(
        &self,
        control: impl FnOnce(oneshot::Sender<Result<T, RequestError>>) -> Control,
    ) -> Result<T, RequestError> {
        self.loaded()?;
        let (reply, answer) = oneshot::channel();
        self.shared.queue.control(control(reply));
        let ended = |_| Err(Refusal::NotReady("the engine has ended".into()).into());
        answer.await.unwrap_or_else(ended)
    }

    /// `None` once the session is closed.
    #[must_use]
    pub fn session(&self, session: SessionId) -> Option<SessionStatus> {
        self.shared.sessions().status(session)
    }

    /// The messages of a session, oldest first; `None` once it is closed.
    #[must_use]
    pub fn history(&self, session: SessionId) -> Option<Vec<Message>> {
        self.shared.sessions().history(session)
    }

    /// Ends a request: at once if it still waits, else at its next token.
    pub fn cancel(&self, ticket: u64, cancel: &Cancel) {
        cancel.cancel();
        if let Some(turn) = self.shared.queue.remove(ticket) {
            turn.finish(FinishReason::Cancelled, Usage::default(), None);
        }
    }

    /// What the engine tells about itself, and every change of it.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<Status> {
        self.shared.status.subscribe()
    }

    /// Accepts no more requests; those accepted go on.
    pub fn begin_stop(&self) {
        self.shared.publish(|status| status.state = State::Stopping);
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

    fn accepting(&self) -> Result<(), Refusal> {
        let status = self.shared.status.borrow();
        match status.state {
            State::Loading | State::Ready => Ok(()),
            State::Failed => Err(Refusal::NotReady(status.detail.clone())),
            State::Stopping => Err(Refusal::NotReady("the daemon is stopping".into())),
        }
    }

    /// The prompt's tokens, checked against the context; `None` while the model loads.
    async fn encode(
        &self,
        messages: Vec<Message>,
        last: Option<(Encoded, Answer)>,
        thinking: Option<bool>,
    ) -> Result<Option<Encoded>, Refusal> {
        let Some(encoder) = self.shared.encoder().clone() else {
            return Ok(None);
        };
        // A prompt may be megabytes long: encoding it must not hold up the bus.
        let encoding =
            tokio::task::spawn_blocking(move || encoder.encode(&messages, last.as_ref(), thinking));
        let prompt = encoding
            .await
            .map_err(|_| Refusal::NotReady("the daemon is stopping".into()))??;
        Ok(Some(prompt))
    }

    fn enqueue(
        &self,
        client: Client,
        session: Option<SessionId>,
        messages: Vec<Message>,
        prompt: Option<Encoded>,
        options: Options,
    ) -> Result<Ticket, Refusal> {
        let id = self.shared.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, events) = mpsc::unbounded_channel();
        let cancel = Cancel::default();
        let turn = Turn {
            id,
            client: client.into(),
            session,
            messages,
            prompt,
            options,
            accepted: Instant::now(),
            events: sender,
            cancelled: cancel.clone(),
            shared: self.shared.clone(),
        };
        // Counted before it is queued: the engine may finish it before this thread goes on.
        self.shared.publish(|status| status.queue_length += 1);
        self.shared.running().push((id, cancel.clone()));
        let pushed = self.shared.queue.push(turn, &self.limits());
        // The load may have failed since it was asked, and with it those who waited.
        let refused = match (pushed, self.accepting()) {
            (Err(refusal), _) => Some(refusal),
            (Ok(()), Err(refusal)) => self.shared.queue.remove(id).map(|_| refusal),
            (Ok(()), Ok(())) => None,
        };
        if let Some(refusal) = refused {
            self.shared
                .publish(|status| status.queue_length = status.queue_length.saturating_sub(1));
            self.shared.running().retain(|(running, _)| *running != id);
            return Err(refusal);
        }
        Ok(Ticket { id, events, cancel })
    }

    fn publish_sessions(&self) {
        let open = u32::try_from(self.shared.sessions().len()).unwrap_or(u32::MAX);
        self.shared.publish(|status| status.sessions = open);
    }
}
