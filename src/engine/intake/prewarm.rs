//! Prefills ahead of a session's next turn: on a caller's request, and after a turn that has nearly filled the context.
//!
//! A prefill ahead does not change its session, and each call for the session stops it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::accept::{Begun, Submission, admit, unstarted};
use super::registration::Registration;
use crate::engine::caller::handle::Handle;
use crate::engine::caller::request::{Event, Options, Priority, Refusal, Ticket};
use crate::engine::caller::status::State;
use crate::engine::prompt::encoder::Encoder;
use crate::engine::prompt::overflow;
use crate::engine::prompt::workers::Interest;
use crate::engine::session::open_sessions::Locked;
use crate::engine::session::sessions::{Lease, Past, SessionId};
use crate::model::{Message, Role};
use crate::telemetry::FinishReason;

/// Time that a caller has for its next message before a prefill ahead begins.
const PAUSE: Duration = Duration::from_millis(100);
/// Time between two checks of a hold that delays a prefill ahead.
const HELD: Duration = Duration::from_secs(1);

impl Handle {
    /// Prefills the prefix that the next turn shares with one of this text, at `background` priority. Returns once it is queued.
    ///
    /// # Errors
    /// As `reply`; `NotReady` while the model loads.
    pub async fn prewarm(
        &self,
        session: impl Into<Lease>,
        text: String,
        options: Options,
    ) -> Result<(), Refusal> {
        let lease = session.into();
        let session = lease.session;
        self.accepting()?;
        self.encodes()?;
        let registration = Registration::new(&self.shared);
        let past = self
            .without_prefill(session)
            .await
            .begin_prefill(lease, registration.id())?;
        let queued = self
            .prefill(session, registration, past, text, options, false)
            .await?;
        if let Some(mut ticket) = queued {
            // A request whose events are not received is cancelled.
            tokio::spawn(async move { while ticket.events.recv().await.is_some() {} });
        }
        Ok(())
    }

    /// Lets a prefill ahead follow a turn, if the turn after it drops the oldest turns. Its prompt then shares no prefix with
    /// this one, and its prefill takes long.
    pub(crate) fn prefill_after(&self, session: SessionId, turn: u64, options: Options) {
        let Some(uses) = self.shared.sessions().uses(session) else {
            return;
        };
        let handle = self.clone();
        tokio::spawn(async move {
            handle.ended(session, turn).await;
            sleep(PAUSE).await;
            handle.prefill_idle(session, uses, options).await;
        });
    }

    /// Returns once a turn of a session has ended.
    async fn ended(&self, session: SessionId, turn: u64) {
        let ended = self.shared.sessions().ended.clone();
        loop {
            let end = ended.notified();
            tokio::pin!(end);
            // The end is noticed from here on.
            end.as_mut().enable();
            if self.shared.sessions().turn(session) != Some(turn) {
                return;
            }
            end.await;
        }
    }

    /// Prefills while the device has nothing else to do, until the prompt is in the cache or the session is used.
    async fn prefill_idle(&self, session: SessionId, uses: u64, options: Options) {
        loop {
            let Ok(encoder) = self.encodes() else {
                return;
            };
            let last = self.shared.sessions().last(session, uses);
            if !last.is_some_and(|last| overflow::is_near(&encoder, &last, &options)) {
                return;
            }
            self.idle().await;
            if self.queue.held_for(Priority::Background).is_some() {
                sleep(HELD).await;
                continue;
            }
            if self.accepting().is_err() || self.shared.state() == State::Idle {
                return;
            }
            let registration = Registration::new(&self.shared);
            let id = registration.id();
            let past = self.shared.sessions().begin_idle_prefill(session, id, uses);
            let Some(past) = past else {
                return;
            };
            let text = String::new();
            let queued = self.prefill(session, registration, past, text, options.clone(), true);
            // The next turn gets the refusal, if there is one.
            let Ok(Some(ticket)) = queued.await else {
                return;
            };
            if self.followed(ticket).await != Some(FinishReason::Cancelled) {
                return;
            }
        }
    }

    /// Waits for the end of a prefill, and cancels it when another request arrives.
    async fn followed(&self, mut ticket: Ticket) -> Option<FinishReason> {
        let mut status = self.status();
        let mut alone = true;
        loop {
            tokio::select! {
                event = ticket.events.recv() => if let Event::Done(outcome) = event? {
                    return Some(outcome.reason);
                },
                _ = status.wait_for(|status| status.queue_length > 1), if alone => {
                    alone = false;
                    self.cancel(ticket.id);
                }
            }
        }
    }

    /// Queues a request that only prefills. Returns `None` if another call has stopped it meanwhile, or if it should only
    /// follow a drop of turns, and none is due.
    async fn prefill(
        &self,
        session: SessionId,
        registration: Registration,
        past: Past,
        text: String,
        options: Options,
        only_after_drop: bool,
    ) -> Result<Option<Ticket>, Refusal> {
        let mut begun = Begun {
            shared: &self.shared,
            session: Some(session),
        };
        let encoder = self.encodes()?;
        let Past {
            client,
            mut talk,
            last,
        } = past;
        talk.messages.push(Message::new(Role::User, text));
        admit(&encoder, &talk, &options)?;
        let submission = Submission {
            registration,
            client,
            session: Some(session),
            last: last.clone(),
            asked: Instant::now(),
        };
        let place = self.queue.place(submission.client.user)?;
        let rules = self.shared.rules(submission.client.user);
        // The tokens of the turn's answer decide which turns are dropped.
        let asked = Options {
            priority: Priority::Background,
            deadline: None,
            grammar: None,
            ..options
        };
        let options = Options {
            max_tokens: 0,
            ..asked.clone()
        };
        let of_model = encoder.clone();
        let encode = move |_: &Interest| {
            let encoder = of_model;
            let last = last.as_deref();
            let (talk, last) = overflow::shorter(&encoder, talk, last, &asked, &rules)?;
            if only_after_drop && talk.dropped == 0 {
                return Ok(None);
            }
            let beginning = encoder.beginning(&talk.messages, last, &asked, &rules);
            beginning.map(|prepared| Some((talk, Some(prepared))))
        };
        let encoders = &self.shared.encoders;
        let prompt = encoders.run(
            submission.registration.id(),
            submission.client.clone(),
            encode,
        );
        let prompt = prompt.await.map_err(|error| unstarted(&error))?;
        let Some(prompt) = prompt.transpose()?.flatten() else {
            return Ok(None);
        };
        if let (talk, Some(prepared)) = &prompt {
            let shown = (&talk.messages[..], &prepared.prompt);
            self.decode(&submission, &encoder, shown, &options).await?;
        }
        let ticket = self.enqueue(submission, place, prompt, options)?;
        begun.session = None;
        Ok(Some(ticket))
    }

    /// Returns the encoder of the model.
    fn encodes(&self) -> Result<Arc<Encoder>, Refusal> {
        let encoder = self.shared.encoder().clone();
        encoder.ok_or_else(|| Refusal::NotReady("the model is still loading".into()))
    }

    /// Stops the prefill ahead of a session, and prevents one after its last turn. Returns the locked sessions.
    pub(crate) async fn without_prefill(&self, session: SessionId) -> Locked<'_> {
        self.shared.sessions().count_use(session);
        loop {
            self.stop_prefill(session).await;
            let sessions = self.shared.sessions();
            if !sessions.prefills_ahead(session) {
                return sessions;
            }
        }
    }

    /// Stops the prefills ahead of all sessions.
    pub(crate) fn stop_prefills(&self) {
        let prefills = self.shared.sessions().prefills();
        for turn in prefills {
            self.cancel(turn);
        }
    }
}
