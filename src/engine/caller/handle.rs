//! The callers' end of the engine. `intake`, `session` and `reload` add methods to the same handle.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::client::{Client, ConnectionName};
use super::limits::Limits;
use super::request::{Priority, Refusal, RequestError, check_calls};
use super::status::State;
use super::status_watch::StatusReceiver;
use crate::board::Watched;
use crate::engine::intake::control::Control;
use crate::engine::intake::queue::Queue;
use crate::engine::intake::receiver::Receiver;
use crate::engine::intake::shared::Shared;
use crate::engine::intake::wait_estimate::WaitEstimate;
use crate::engine::observe::live::Snapshot;
use crate::engine::observe::progress::Progress;
use crate::engine::picture::pictures::plan;
use crate::engine::picture::quota::ImageQuota;
use crate::engine::session::sessions::{Lease, Said, SessionId, SessionStatus};
use crate::model::{Message, Role};
use crate::session_store::Entry;
use crate::telemetry::{FinishReason, Totals, Usage};
use crate::tools::Formats;
use crate::vision::{ImageError, Received};

/// Makes the two ends of an engine.
#[must_use]
pub fn channel(limits: Limits) -> (Handle, Receiver) {
    let shared = Arc::new(Shared::new(limits));
    let queue = Arc::new(Queue::new(shared.clone()));
    let handle = Handle {
        shared: shared.clone(),
        queue: queue.clone(),
    };
    (handle, Receiver { shared, queue })
}

/// The engine as its callers know it. Clones are cheap, and share all state. Only `async` methods wait.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) queue: Arc<Queue>,
}

impl Handle {
    /// Returns the limits.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.shared.limits()
    }

    /// Sets the limits. Requests that wait and sessions that are open stay.
    pub fn set_limits(&self, limits: Limits) {
        self.shared.set_limits(limits);
    }

    /// Sets the formats in which models call tools.
    pub fn set_formats(&self, formats: Formats) {
        self.shared.set_formats(formats);
    }

    /// Returns an error if the model cannot call tools. Without a model there is none.
    ///
    /// # Errors
    /// `NotSupported`.
    pub fn takes_tools(&self) -> Result<(), Refusal> {
        let encoder = self.shared.encoder().clone();
        match encoder {
            Some(encoder) => encoder.writing(&self.shared.formats()).map(drop),
            None => Ok(()),
        }
    }

    /// Returns an error if the model takes no images.
    ///
    /// # Errors
    /// `NotReady` without a model, `NotSupported`.
    pub fn takes_images(&self) -> Result<(), Refusal> {
        self.loaded()?;
        let status = self.status();
        let model = &status.borrow().model;
        if model.images {
            return Ok(());
        }
        Err(Refusal::NotSupported(format!(
            "model {:?} takes no images: it has no vision tower; send text alone, or load another model (model.path)",
            model.name
        )))
    }

    /// Returns what counts the bytes of images.
    #[must_use]
    pub fn image_quota(&self) -> &ImageQuota {
        &self.shared.image_quota
    }

    /// Returns an error if the model cannot show an image. It costs microseconds, and decodes nothing.
    ///
    /// # Errors
    /// If it takes no image of this aspect, or needs more tokens for it than are allowed.
    pub fn plan_image(&self, image: &Received) -> Result<(), ImageError> {
        let encoder = self.shared.encoder().clone();
        let sight = encoder.as_ref().and_then(|encoder| encoder.sight());
        sight.map_or(Ok(()), |sight| plan(image, sight).map(drop))
    }

    /// Opens a session of a connection, which begins with `messages`.
    ///
    /// # Errors
    /// `NotReady`, `TooManySessions`, `UserSessions`, or `PromptBytes` if no turn could follow these messages.
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

    /// Opens a session of a connection that begins with the past of another session. Both share the pages of that past.
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
            // The engine thread must branch the pages before either session changes.
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
            let bytes = self.shared.sessions().stored_bytes(lease.session, &said);
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

    /// Closes a session, and cancels its request at whatever stage that is.
    pub fn close_session(&self, session: SessionId) {
        // `cancel` takes the lock of the sessions again.
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

    /// Drops work for a caller that has gone: its prompts are not encoded.
    pub fn leave(&self, name: &ConnectionName) {
        self.shared.encoders.remove_client(name);
        self.shared.grammars.remove_client(name);
        self.shared.decoders.remove_client(name);
    }

    /// Removes the last turns of a session, and messages that were appended since. The earlier turns stay in the cache.
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

    /// Removes all turns of a session. The messages that it began with stay.
    ///
    /// # Errors
    /// `SessionClosed`, `SessionBusy`, `Unkept`.
    pub async fn clear_session(&self, session: impl Into<Lease>) -> Result<(), Refusal> {
        self.leave_turns(session.into(), |_| Ok(0)).await
    }

    /// Rewinds a session to the number of turns that `left` returns, given the number that it has.
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

    /// Drops the decode graph. Recording that failures had disabled is tried again.
    ///
    /// # Errors
    /// `NotReady` without a model, `NotSupported` if this engine records nothing.
    pub async fn reset_graph(&self) -> Result<(), RequestError> {
        self.ask(Control::ResetGraph).await
    }

    /// Returns the decode graph in DOT; empty before the first recording.
    ///
    /// # Errors
    /// As `reset_graph`, and `EngineFailed` if the driver refuses.
    pub async fn dump_graph(&self) -> Result<String, RequestError> {
        self.ask(Control::DumpGraph).await
    }

    /// Returns what the engine does at this moment.
    #[must_use]
    pub fn live(&self) -> Snapshot {
        self.shared.live.read()
    }

    /// Returns what the engine does at this moment, and has the operations of some steps timed in the next seconds.
    #[must_use]
    pub fn timed(&self) -> Snapshot {
        self.shared.live.note_reader();
        self.live()
    }

    /// Returns the counts and times of all requests since the start.
    #[must_use]
    pub fn totals(&self) -> &Totals {
        &self.shared.totals
    }

    /// Returns the requests that were accepted and have not ended, by priority: realtime, normal, background.
    #[must_use]
    pub fn accepted(&self) -> [u32; 3] {
        self.shared.requests.by_priority()
    }

    /// Returns the progress of the engine thread.
    #[must_use]
    pub fn progress(&self) -> &Progress {
        &self.shared.progress
    }

    /// Returns what is known of the board.
    #[must_use]
    pub fn board(&self) -> &Watched {
        &self.shared.board
    }

    /// Estimates how long a request still waits: not at all while it is answered, unless a hold suspends it.
    #[must_use]
    pub fn wait_estimate(&self, ticket: u64) -> WaitEstimate {
        let priority = self.shared.requests.priority(ticket);
        let held = priority.and_then(|priority| self.queue.held_for(priority));
        let before = self.queue.before(ticket);
        let waits = before.map_or_else(WaitEstimate::default, |before| {
            self.shared.request_times.estimate(before)
        });
        waits.held(held)
    }

    /// Returns the priorities and users of the waiting requests, in the order of their arrival.
    #[must_use]
    pub fn waiting(&self) -> Vec<(Priority, u32)> {
        self.queue.waiting()
    }

    async fn ask<T>(
        &self,
        control: impl FnOnce(oneshot::Sender<Result<T, RequestError>>) -> Control,
    ) -> Result<T, RequestError> {
        self.answers()?;
        let (reply, answer) = oneshot::channel();
        self.queue.control(control(reply));
        answer
            .await
            .unwrap_or_else(|_| Err(self.shared.closed().into()))
    }

    /// Returns the lease of a session's holder; `None` once the session is closed.
    #[must_use]
    pub fn lease(&self, session: SessionId) -> Option<Lease> {
        self.shared.sessions().lease(session)
    }

    /// Returns the status of a session; `None` once it is closed.
    #[must_use]
    pub fn session(&self, session: SessionId) -> Option<SessionStatus> {
        self.shared.session(session)
    }

    /// Returns the messages of a session, oldest first; `None` once it is closed.
    #[must_use]
    pub fn history(&self, session: SessionId) -> Option<Vec<Said>> {
        // The messages are copied without the lock of the sessions.
        let history = self.shared.sessions().history(session)?;
        Some(history.said())
    }

    /// Cancels a request. It ends at once if it waits, or else at its next token.
    pub fn cancel(&self, ticket: u64) {
        self.shared.requests.cancel(ticket);
        self.shared.encoders.remove(ticket);
        self.shared.grammars.remove(ticket);
        self.shared.decoders.remove(ticket);
        if let Some(turn) = self.queue.remove(ticket) {
            turn.finish(FinishReason::Cancelled, Usage::default(), None);
        }
    }

    /// Returns the status of the engine, and every change of it.
    #[must_use]
    pub fn status(&self) -> StatusReceiver {
        self.shared.status()
    }

    /// Stops accepting requests. Accepted requests continue. If the load has failed, that stays the published reason.
    pub fn begin_stop(&self) {
        self.shared.publish(|status| {
            if status.state != State::Failed {
                status.state = State::Stopping;
            }
        });
        self.stop_prefills();
    }

    /// Returns why the engine accepts no requests.
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

    /// Closes the queue, so that the engine thread ends once it is empty.
    pub fn close(&self) {
        self.queue.close();
    }

    /// Returns when no request waits or runs.
    pub async fn idle(&self) {
        // `self` keeps the sender alive.
        let _ = self
            .status()
            .wait_for(|status| status.queue_length == 0)
            .await;
    }

    /// Whether a model was loaded since the start. It may be unloaded.
    #[must_use]
    pub fn knows_model(&self) -> bool {
        self.shared.encoder().is_some()
    }

    /// Returns an error if no model is known yet, or no request is accepted. A known model may be unloaded.
    pub(crate) fn loaded(&self) -> Result<(), Refusal> {
        if !self.knows_model() {
            self.answers()?;
        }
        self.accepting()
    }

    /// Returns an error if the engine thread cannot obey at this moment because it loads a model, or if no request is
    /// accepted.
    pub(crate) fn answers(&self) -> Result<(), Refusal> {
        if self.shared.state() == State::Loading {
            return Err(Refusal::NotReady("the model is still loading".into()));
        }
        self.accepting()
    }

    /// Returns an error if no request is accepted: after a failed load, or while the daemon stops.
    ///
    /// # Errors
    /// `NotReady` with the reason.
    pub fn accepting(&self) -> Result<(), Refusal> {
        self.shared.accepting()
    }

    pub(crate) fn publish_sessions(&self) {
        let open = u32::try_from(self.shared.sessions().len()).unwrap_or(u32::MAX);
        self.shared.publish(|status| status.sessions = open);
    }
}
