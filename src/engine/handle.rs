//! The callers' end of the engine: keeps the sessions, asks the engine's thread, and tells how it is.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::control::Control;
use super::inbox::Inbox;
use super::live::Snapshot;
use super::queue::Queue;
use super::request::check_calls;
use super::session::{Lease, Said, SessionId, SessionStatus};
use super::shared::Shared;
use super::status::State;
use super::status_watch::StatusReceiver;
use super::waits::Waits;
use super::{
    Client, ConnectionName, FinishReason, Limits, Message, Priority, Progress, Refusal,
    RequestError, Role, Usage,
};
use crate::session_store::Entry;
use crate::tools::Formats;

/// Makes the two ends of an engine.
#[must_use]
pub fn channel(limits: Limits) -> (Handle, Inbox) {
    let shared = Arc::new(Shared::new(limits));
    let queue = Arc::new(Queue::new(shared.clone()));
    let handle = Handle {
        shared: shared.clone(),
        queue: queue.clone(),
    };
    (handle, Inbox { shared, queue })
}

/// The engine as its callers know it; cheap to clone. No method waits for the model.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(super) shared: Arc<Shared>,
    pub(super) queue: Arc<Queue>,
}

impl Handle {
    /// What is in force.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.shared.limits()
    }

    /// These limits hold from now on; what waits or is open already stays.
    pub fn set_limits(&self, limits: Limits) {
        self.shared.set_limits(limits);
    }

    /// The formats in which models call tools, from now on.
    pub fn set_formats(&self, formats: Formats) {
        self.shared.set_formats(formats);
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

    /// Opens a session of a connection, which begins with these messages.
    ///
    /// # Errors
    /// `NotReady`, `TooManySessions`, `UserSessions`, or `PromptBytes` if no turn could follow such messages.
    pub fn open_session(
        &self,
        client: Client,
        messages: Vec<Message>,
    ) -> Result<SessionId, Refusal> {
        self.accepting()?;
        if let Some(encoder) = self.shared.encoder().as_ref() {
            encoder.admit(&messages)?;
        }
        let limits = self.limits();
        let id = self.shared.sessions().open(client, messages, &limits)?;
        self.publish_sessions();
        Ok(id)
    }

    /// Opens another session of a connection with the past of this one, which stays as it is: what the cache holds of it
    /// is of both from now on.
    ///
    /// # Errors
    /// `NotReady`, `SessionClosed`, `SessionBusy`, `TooManySessions`, `UserSessions`.
    pub async fn branch(
        &self,
        session: impl Into<Lease>,
        client: Client,
    ) -> Result<SessionId, Refusal> {
        let lease = session.into();
        self.accepting()?;
        let limits = self.limits();
        let id = {
            let mut sessions = self.without_prefill(lease.session).await;
            let id = sessions.branch(lease, client, &limits)?;
            // The engine thread hears of it before anything happens to either.
            self.queue.branch(lease.session, id);
            id
        };
        self.publish_sessions();
        Ok(id)
    }

    /// Adds messages to a session without an answer.
    ///
    /// # Errors
    /// `NotReady`, `SessionClosed`, `SessionBusy`, `InvalidMessages`, `ContextFull`, `PromptBytes`, `Quota`, `Unkept`.
    pub async fn append(
        &self,
        session: impl Into<Lease>,
        said: Vec<Message>,
    ) -> Result<(), Refusal> {
        let lease = session.into();
        self.accepting()?;
        let encoder = self.shared.encoder().clone();
        let loads = || Refusal::NotReady("the model is still loading".into());
        let encoder = encoder.ok_or_else(loads)?;
        if said.iter().any(|message| message.role == Role::Assistant) {
            return Err(Refusal::InvalidMessages(
                "a message by \"assistant\" cannot be appended: the model makes those; begin a session with them".into(),
            ));
        }
        let file = self.shared.sessions().file(lease.session);
        if let Some(file) = file {
            let bytes = said.iter().map(Message::bytes).sum();
            file.admit(bytes).await?;
        }
        self.change(lease, |session| {
            let whole = session.with(&said, encoder.context())?;
            encoder.admit(&whole)?;
            check_calls(&whole)?;
            Ok((!said.is_empty()).then_some(Entry::Appended { messages: said }))
        })
        .await
    }

    /// Forgets a session. Its turn ends with it, whether it is being encoded, waits or is answered.
    pub fn close_session(&self, session: SessionId) {
        // The lock is not held while the turn ends, which asks for it.
        let closed = self.shared.sessions().close(session);
        let Ok(turn) = closed else {
            return;
        };
        if let Some(turn) = turn {
            self.cancel(turn);
        }
        self.queue.forget(session, false);
        self.publish_sessions();
    }

    /// A caller has gone: what it still wanted encoded need not be.
    pub fn leave(&self, name: &ConnectionName) {
        self.shared.encoders.remove_client(name);
        self.shared.grammars.remove_client(name);
    }

    /// Takes back the last turns of a session, and what was appended since; what it held before them stays in the cache.
    ///
    /// # Errors
    /// `SessionClosed`, `SessionBusy`, `Unkept`, or `Turns` if it has fewer.
    pub async fn rewind(&self, session: impl Into<Lease>, turns: u32) -> Result<(), Refusal> {
        self.leave_turns(session.into(), |has| {
            let refused = Refusal::Turns {
                asked: turns,
                turns: has,
            };
            has.checked_sub(turns).ok_or(refused)
        })
        .await
    }

    /// Takes back all turns of a session; what it began with stays.
    ///
    /// # Errors
    /// `SessionClosed`, `SessionBusy`, `Unkept`.
    pub async fn clear_session(&self, session: impl Into<Lease>) -> Result<(), Refusal> {
        self.leave_turns(session.into(), |_| Ok(0)).await
    }

    /// Leaves as many turns as `left` makes of how many there are.
    async fn leave_turns(
        &self,
        lease: Lease,
        left: impl FnOnce(u32) -> Result<u32, Refusal>,
    ) -> Result<(), Refusal> {
        self.change(lease, |session| {
            let turns = left(session.turns())?;
            let beyond = session.goes_beyond(turns);
            Ok(beyond.then_some(Entry::Rewound { turns }))
        })
        .await
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
        self.shared.live.read()
    }

    /// The same for somebody who looks at how long operations take: steps of the next few seconds are timed for it, one a
    /// second.
    #[must_use]
    pub fn timed(&self) -> Snapshot {
        self.shared.live.look();
        self.live()
    }

    /// Whether the engine gets on.
    #[must_use]
    pub fn progress(&self) -> &Progress {
        &self.shared.progress
    }

    /// Returns what a request waits for: nothing while it is answered, unless a hold suspends it.
    #[must_use]
    pub fn waits(&self, ticket: u64) -> Waits {
        let priority = self.shared.requests.priority(ticket);
        let held = priority.and_then(|priority| self.queue.held_for(priority));
        let before = self.queue.before(ticket);
        let waits = before.map_or_else(Waits::default, |before| {
            self.shared.turn_times.waits(before)
        });
        waits.held(held)
    }

    /// Whose requests wait: each one's priority and user, as they came.
    #[must_use]
    pub fn waiting(&self) -> Vec<(Priority, u32)> {
        self.queue.waiting()
    }

    async fn ask<T>(
        &self,
        control: impl FnOnce(oneshot::Sender<Result<T, RequestError>>) -> Control,
    ) -> Result<T, RequestError> {
        self.loaded()?;
        let (reply, answer) = oneshot::channel();
        self.queue.control(control(reply));
        answer
            .await
            .unwrap_or_else(|_| Err(self.shared.closed().into()))
    }

    /// The lease of a session's holder; `None` once the session is closed.
    #[must_use]
    pub fn lease(&self, session: SessionId) -> Option<Lease> {
        self.shared.sessions().lease(session)
    }

    /// `None` once the session is closed.
    #[must_use]
    pub fn session(&self, session: SessionId) -> Option<SessionStatus> {
        self.shared.session(session)
    }

    /// The messages of a session, oldest first; `None` once it is closed.
    #[must_use]
    pub fn history(&self, session: SessionId) -> Option<Vec<Said>> {
        // A long one is copied while nobody waits for the sessions.
        let history = self.shared.sessions().history(session)?;
        Some(history.said())
    }

    /// Ends a request: at once if it still waits, else at its next token.
    pub fn cancel(&self, ticket: u64) {
        self.shared.requests.cancel(ticket);
        self.shared.encoders.remove(ticket);
        self.shared.grammars.remove(ticket);
        if let Some(turn) = self.queue.remove(ticket) {
            turn.finish(FinishReason::Cancelled, Usage::default(), None);
        }
    }

    /// What the engine tells about itself, and every change of it.
    #[must_use]
    pub fn status(&self) -> StatusReceiver {
        self.shared.status()
    }

    /// Accepts no more requests; those accepted go on. Where the load has failed that stays the reason.
    pub fn begin_stop(&self) {
        self.shared.publish(|status| {
            if status.state != State::Failed {
                status.state = State::Stopping;
            }
        });
        self.stop_prefills();
    }

    /// Why nothing is accepted any more.
    #[must_use]
    pub fn closed(&self) -> Refusal {
        self.shared.closed()
    }

    /// Cancels every request, waiting or running.
    pub fn cancel_all(&self) {
        for id in self.shared.requests.accepted() {
            self.cancel(id);
        }
    }

    /// Lets the engine thread end once its queue is empty.
    pub fn close(&self) {
        self.queue.close();
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

    pub(super) fn publish_sessions(&self) {
        let open = u32::try_from(self.shared.sessions().len()).unwrap_or(u32::MAX);
        self.shared.publish(|status| status.sessions = open);
    }
}
