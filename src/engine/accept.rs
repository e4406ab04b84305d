//! From what a caller asks to a turn that waits: checked, encoded by the model in force, and queued. What is refused is
//! refused before it costs much.

use std::io;
use std::time::Instant;

use tokio::sync::mpsc;

use super::encoder::{Encoded, Prepared};
use super::queue::Place;
use super::request::check;
use super::session::{Past, SessionId};
use super::shared::Shared;
use super::{
    Answer, Cancel, Client, FinishReason, Handle, Message, Options, Reading, Refusal, Role, Ticket,
    Turn, Usage,
};

/// What is asked, and by whom.
struct Request {
    id: u64,
    client: Client,
    session: Option<SessionId>,
    cancel: Cancel,
    asked: Instant,
}

/// A session whose turn is not queued yet: dropping it ends the turn.
struct Begun<'a> {
    shared: &'a Shared,
    session: Option<SessionId>,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.session {
            self.shared.sessions().end_turn(session, None);
        }
    }
}

impl Handle {
    /// Queues one conversation; nothing of it is kept afterwards.
    ///
    /// # Errors
    /// `NotReady`, `Busy`, `UserQueue`, `InvalidMessages`, `ContextFull`, `PromptBytes`.
    pub async fn generate(
        &self,
        client: Client,
        messages: Vec<Message>,
        options: Options,
    ) -> Result<Ticket, Refusal> {
        self.accepting()?;
        check(&messages)?;
        let request = Request {
            id: self.shared.next_id(),
            client,
            session: None,
            cancel: Cancel::default(),
            asked: Instant::now(),
        };
        self.queue(request, messages, None, options).await
    }

    /// Queues one user turn of a session; only what its KV does not hold yet will be prefilled.
    ///
    /// # Errors
    /// As `reply`.
    pub async fn send(
        &self,
        session: SessionId,
        text: String,
        options: Options,
    ) -> Result<Ticket, Refusal> {
        let said = vec![Message::new(Role::User, text)];
        self.reply(session, said, options).await
    }

    /// The same with whatever messages: what tools answered, say.
    ///
    /// # Errors
    /// `NotReady`, `Busy`, `UserQueue`, `SessionBusy`, `SessionClosed`, `InvalidMessages`, `ContextFull`, `PromptBytes`.
    pub async fn reply(
        &self,
        session: SessionId,
        said: Vec<Message>,
        options: Options,
    ) -> Result<Ticket, Refusal> {
        self.accepting()?;
        let (id, cancel) = (self.shared.next_id(), Cancel::default());
        let begun = self.shared.sessions().begin_turn(session, id, &cancel);
        let Past {
            client,
            mut messages,
            last,
        } = begun?;
        let mut begun = Begun {
            shared: &self.shared,
            session: Some(session),
        };
        messages.extend(said);
        check(&messages)?;
        let request = Request {
            id,
            client,
            session: Some(session),
            cancel,
            asked: Instant::now(),
        };
        let ticket = self.queue(request, messages, last, options).await?;
        begun.session = None;
        Ok(ticket)
    }

    /// Encodes a request's conversation, which is checked against the context, and queues it.
    async fn queue(
        &self,
        request: Request,
        messages: Vec<Message>,
        last: Option<(Encoded, Answer)>,
        options: Options,
    ) -> Result<Ticket, Refusal> {
        let encoder = self.shared.encoder().clone();
        // In this order: what costs the least first.
        if let Some(encoder) = &encoder {
            encoder.admit(&messages)?;
        }
        let place = self.queue.place(request.client.user)?;
        let Some(encoder) = encoder else {
            // It is encoded when there is a model.
            return self.enqueue(request, place, (messages, None), options);
        };
        let rules = self.shared.rules();
        let asked = options.clone();
        let encode = move || {
            let prepared = encoder.prepared(&messages, last.as_ref(), &asked, &rules);
            prepared.map(|prepared| (messages, Some(prepared)))
        };
        let encoders = &self.shared.encoders;
        let prompt = encoders.run(request.id, request.client.clone(), encode);
        match prompt.await.map_err(|error| unstarted(&error))? {
            Some(prompt) => self.enqueue(request, place, prompt?, options),
            None if request.cancel.is_cancelled() => Err(Refusal::SessionClosed),
            // Its caller has gone, or its thread: then the journal has the reason, and the service ends.
            None => Err(Refusal::NotReady("the prompt was not encoded".into())),
        }
    }

    /// A request that still waits when its time is over ends then, whatever the engine thread is at.
    fn end_at(&self, deadline: Instant, id: u64) {
        let queue = self.queue.clone();
        tokio::spawn(async move {
            tokio::time::sleep_until(deadline.into()).await;
            if let Some(turn) = queue.remove(id) {
                turn.finish(FinishReason::Deadline, Usage::default(), None);
            }
        });
    }

    fn enqueue(
        &self,
        request: Request,
        place: Place,
        (messages, prepared): (Vec<Message>, Option<Prepared>),
        options: Options,
    ) -> Result<Ticket, Refusal> {
        let (prompt, guide, writing) = match prepared {
            Some(prepared) => (Some(prepared.prompt), prepared.guide, prepared.writing),
            None => (None, None, None),
        };
        let Request {
            id,
            client,
            session,
            cancel,
            asked,
        } = request;
        let deadline = options.deadline.map(|after| asked + after);
        let (sender, events) = mpsc::unbounded_channel();
        let reading = Reading::default();
        let turn = Turn {
            id,
            client: client.into(),
            session,
            messages,
            prompt,
            guide,
            writing,
            options,
            accepted: Instant::now(),
            deadline,
            events: sender,
            cancelled: cancel.clone(),
            reading: reading.clone(),
            shared: self.shared.clone(),
        };
        // Counted before it is queued: the engine may finish it before this thread goes on.
        self.shared.publish(|status| status.queue_length += 1);
        self.shared.running().push((id, cancel.clone()));
        let pushed = self.queue.push(turn, place);
        // The load may have failed since it was asked, and with it those who waited; or its session was closed.
        let still = if cancel.is_cancelled() {
            Err(Refusal::SessionClosed)
        } else {
            self.accepting()
        };
        let refused = match (pushed, still) {
            (Err(refusal), _) => Some(refusal),
            (Ok(()), Err(refusal)) => self.queue.remove(id).map(|_| refusal),
            (Ok(()), Ok(())) => None,
        };
        if let Some(refusal) = refused {
            self.shared
                .publish(|status| status.queue_length = status.queue_length.saturating_sub(1));
            self.shared.running().retain(|(running, _)| *running != id);
            return Err(refusal);
        }
        if let Some(deadline) = deadline {
            self.end_at(deadline, id);
        }
        Ok(Ticket {
            id,
            events,
            cancel,
            reading,
        })
    }
}

fn unstarted(error: &io::Error) -> Refusal {
    Refusal::NotReady(format!(
        "the thread that encodes prompts cannot be started ({error}); try again later"
    ))
}
