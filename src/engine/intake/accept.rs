//! Accepts requests: checks them, encodes their prompts, and queues them. The cheap checks come first.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::queue::Place;
use super::registration::Registration;
use super::request::Request;
use super::shared::Shared;
use crate::engine::caller::client::Client;
use crate::engine::caller::handle::Handle;
use crate::engine::caller::request::{Options, Overflow, Reading, Refusal, Ticket, check};
use crate::engine::prompt::encoder::{Bound, Encoder, Last, Prepared};
use crate::engine::prompt::overflow::{self, Talk};
use crate::engine::prompt::workers::Interest;
use crate::engine::session::sessions::{Lease, Past, SessionId};
use crate::model::{Message, Role};
use crate::telemetry::{FinishReason, Usage};

/// A request before it is queued.
pub(crate) struct Submission {
    pub(crate) registration: Registration,
    pub(crate) client: Client,
    pub(crate) session: Option<SessionId>,
    /// The previous turn of the session.
    pub(crate) last: Option<Last>,
    pub(crate) asked: Instant,
}

/// A session whose turn is not queued yet. Dropping it ends the turn.
pub(crate) struct Begun<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) session: Option<SessionId>,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.session {
            self.shared.sessions().end_turn(session, None);
        }
    }
}

impl Handle {
    /// Queues a conversation without a session.
    ///
    /// # Errors
    /// `NotReady`, `Busy`, `UserQueue`, `InvalidMessages`, `ContextFull`, `PromptBytes`, `Image`, `UserPixels`,
    /// `TooManyPixels`.
    pub async fn generate(
        &self,
        client: Client,
        messages: Vec<Message>,
        options: Options,
    ) -> Result<Ticket, Refusal> {
        self.accepting()?;
        check(&messages)?;
        let submission = Submission {
            registration: Registration::new(&self.shared),
            client,
            session: None,
            last: None,
            asked: Instant::now(),
        };
        self.encode_and_enqueue(submission, Talk::whole(messages), options)
            .await
    }

    /// Queues a user's message as the next turn of a session. Only tokens that are not in the cache are prefilled.
    pub async fn send(
        &self,
        session: impl Into<Lease>,
        text: String,
        options: Options,
    ) -> Result<Ticket, Refusal> {
        let said = vec![Message::new(Role::User, text)];
        self.reply(session, said, options).await
    }

    /// Queues messages as the next turn of a session, such as the results of tools.
    ///
    /// # Errors
    /// `NotReady`, `Busy`, `UserQueue`, `SessionBusy`, `SessionClosed`, `InvalidMessages`, `ContextFull`, `PromptBytes`,
    /// `Quota`.
    pub async fn reply(
        &self,
        session: impl Into<Lease>,
        said: Vec<Message>,
        options: Options,
    ) -> Result<Ticket, Refusal> {
        let lease = session.into();
        let session = lease.session;
        self.accepting()?;
        let registration = Registration::new(&self.shared);
        let begun = self
            .without_prefill(session)
            .await
            .begin_turn(lease, registration.id());
        let Past {
            client,
            mut talk,
            last,
        } = begun?;
        let mut begun = Begun {
            shared: &self.shared,
            session: Some(session),
        };
        let more = self.shared.sessions().stored_bytes(session, &said);
        talk.messages.extend(said);
        check(&talk.messages)?;
        let file = self.shared.sessions().file(session);
        if let Some(file) = file {
            file.admit(more).await?;
        }
        let submission = Submission {
            registration,
            client,
            session: Some(session),
            last,
            asked: Instant::now(),
        };
        let drops = options.overflow == Overflow::TruncateOldest;
        let next = drops.then(|| options.clone());
        let ticket = self.encode_and_enqueue(submission, talk, options).await?;
        begun.session = None;
        if let Some(next) = next {
            self.prefill_after(session, ticket.id, next);
        }
        Ok(ticket)
    }

    /// Encodes a request's conversation, checks it against the context, and queues it.
    async fn encode_and_enqueue(
        &self,
        submission: Submission,
        talk: Talk,
        options: Options,
    ) -> Result<Ticket, Refusal> {
        let encoder = self.shared.encoder().clone();
        // The cheapest check comes first.
        if let Some(encoder) = &encoder {
            admit(encoder, &talk, &options)?;
        }
        let place = self.queue.place(submission.client.user)?;
        let Some(encoder) = encoder else {
            // The engine thread has it encoded when there is a model.
            return self.enqueue(submission, place, (talk, None), options);
        };
        let rules = self.shared.rules(submission.client.user);
        let (asked, last) = (options.clone(), submission.last.clone());
        let of_model = encoder.clone();
        let encode =
            move |_: &Interest| overflow::fitted(&of_model, talk, last.as_deref(), &asked, &rules);
        let encoders = &self.shared.encoders;
        let prompt = encoders.run(
            submission.registration.id(),
            submission.client.clone(),
            encode,
        );
        let Some(prompt) = prompt.await.map_err(|error| unstarted(&error))? else {
            return Err(unwanted(&submission));
        };
        let (talk, prepared) = prompt?;
        let shown = (&talk.messages[..], &prepared.prompt);
        self.decode(&submission, &encoder, shown, &options).await?;
        self.compile(&submission, &encoder, &prepared, &options)
            .await?;
        self.enqueue(submission, place, (talk, Some(prepared)), options)
    }

    /// Compiles the grammar of a request's answer, unless it is compiled. A request whose deadline passes meanwhile is queued,
    /// and ends there.
    async fn compile(
        &self,
        submission: &Submission,
        encoder: &Arc<Encoder>,
        prepared: &Prepared,
        options: &Options,
    ) -> Result<(), Refusal> {
        let Some(bound) = prepared.bound.clone().filter(Bound::has_grammar) else {
            return Ok(());
        };
        let user = submission.client.user;
        if encoder.has_compiled(user, &bound)? {
            // A compiled grammar does not wait for others.
            return Ok(());
        }
        let (encoder, tools) = (encoder.clone(), options.tools.clone());
        let check = move |wanted: &Interest| {
            encoder.check(user, &bound, tools.as_deref(), || wanted.is_wanted())
        };
        let grammars = &self.shared.grammars;
        let checked = grammars.run(
            submission.registration.id(),
            submission.client.clone(),
            check,
        );
        let checked = match options.deadline.map(|after| submission.asked + after) {
            None => checked.await,
            Some(deadline) => match tokio::time::timeout_at(deadline.into(), checked).await {
                Ok(checked) => checked,
                Err(_) => return Ok(()),
            },
        };
        let checked = checked.map_err(|error| unstarted(&error))?;
        checked.unwrap_or_else(|| Err(unwanted(submission)))
    }

    /// Ends a request that still waits at its deadline. It may be with the encoders at that moment.
    fn end_at(&self, deadline: Instant, id: u64) {
        const AGAIN: Duration = Duration::from_millis(20);
        let queue = self.queue.clone();
        let waits = tokio::spawn(async move {
            tokio::time::sleep_until(deadline.into()).await;
            // The end of the request aborts this.
            loop {
                if let Some(request) = queue.remove(id) {
                    request.finish(FinishReason::Deadline, Usage::default(), None);
                    return;
                }
                tokio::time::sleep(AGAIN).await;
            }
        });
        self.shared.requests.ends_at(id, waits.abort_handle());
    }

    pub(crate) fn enqueue(
        &self,
        submission: Submission,
        place: Place,
        (talk, prepared): (Talk, Option<Prepared>),
        options: Options,
    ) -> Result<Ticket, Refusal> {
        let (prompt, bound, writing) = match prepared {
            Some(prepared) => (Some(prepared.prompt), prepared.bound, prepared.writing),
            None => (None, None, None),
        };
        let Submission {
            registration,
            client,
            session,
            last,
            asked,
        } = submission;
        let id = registration.id();
        let deadline = options.deadline.map(|after| asked + after);
        let (sender, events) = mpsc::unbounded_channel();
        let reading = Reading::default();
        // The request is counted before it is queued, because the engine may finish it at once.
        registration.accept(options.priority);
        let request = Request {
            id,
            client: client.into(),
            session,
            messages: talk.messages,
            turns: talk.turns,
            dropped: talk.dropped,
            last,
            prompt,
            bound,
            guide: None,
            unchecked: Vec::new(),
            cached: None,
            writing,
            options,
            stop: None,
            accepted: Instant::now(),
            deadline,
            events: sender,
            reading: reading.clone(),
            registration,
            shared: self.shared.clone(),
        };
        request.admit_pages()?;
        self.queue.push(request, place)?;
        // The load may have failed meanwhile, and with it the waiting requests.
        if let Err(refusal) = self.accepting()
            && self.queue.remove(id).is_some()
        {
            return Err(refusal);
        }
        if let Some(deadline) = deadline {
            self.end_at(deadline, id);
        }
        Ok(Ticket {
            id,
            events,
            reading,
        })
    }
}

/// Refuses a conversation that cannot fit the context, whatever its tokens are and however many turns are dropped.
pub(crate) fn admit(encoder: &Encoder, talk: &Talk, options: &Options) -> Result<(), Refusal> {
    encoder.admit(match options.overflow {
        Overflow::Error => &talk.messages,
        Overflow::TruncateOldest => talk.news(),
    })
}

/// Returns why a request's work was dropped: its session is closed, its caller is gone, or the service ends.
pub(super) fn unwanted(submission: &Submission) -> Refusal {
    if submission.registration.is_cancelled() {
        Refusal::SessionClosed
    } else {
        Refusal::NotReady("the prompt was not encoded".into())
    }
}

pub(crate) fn unstarted(error: &io::Error) -> Refusal {
    Refusal::NotReady(format!(
        "the thread that prepares prompts cannot be started ({error}); try again later"
    ))
}
