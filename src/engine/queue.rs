//! The bounded queue of turns between many callers and the one engine thread.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use super::encoder::Encoded;
use super::handle::Shared;
use super::observe;
use super::progress::{Phase, Progress};
use super::replace::Replacement;
use super::session::{Answer, SessionId};
use super::{Cancel, Client, Event, FinishReason, Limits, Outcome, Usage};
use super::{Message, Options, Refusal, RequestError};
use crate::graph::Mode;
use crate::journal;
use crate::telemetry::Receipt;

/// One request on its way through the engine. Whoever holds it must `finish` it.
#[derive(Debug)]
pub struct Turn {
    pub id: u64,
    pub client: Arc<Client>,
    pub session: Option<SessionId>,
    /// The whole conversation, its last message being the new one.
    pub messages: Vec<Message>,
    /// The conversation as tokens, maybe another model's by now; `None` if it was accepted before one was loaded.
    pub prompt: Option<Encoded>,
    pub options: Options,
    pub accepted: Instant,
    pub(super) events: UnboundedSender<Event>,
    pub(super) cancelled: Cancel,
    pub(super) shared: Arc<Shared>,
}

impl Turn {
    /// Whether its caller has lost interest: the engine asks before each token.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.is_cancelled() || self.events.is_closed()
    }

    /// Sends text to the reader; never waits, and a reader that has gone is noticed by `is_cancelled`.
    pub fn emit(&self, text: String) {
        let _ = self.events.send(Event::Text(text));
    }

    /// Ends the turn. A session keeps `answer` as its newest message; without one its history is as before.
    pub fn finish(self, reason: FinishReason, usage: Usage, answer: Option<Answer>) {
        self.end(
            Outcome {
                reason,
                usage,
                error: None,
            },
            answer,
        );
    }

    /// Ends the turn with an error; a session's history is as before.
    pub fn fail(self, error: RequestError, usage: Usage) {
        self.end(
            Outcome {
                reason: FinishReason::Error,
                usage,
                error: Some(error),
            },
            None,
        );
    }

    fn end(self, outcome: Outcome, answer: Option<Answer>) {
        let Self {
            id: turn,
            client,
            session,
            messages,
            prompt,
            events,
            shared,
            ..
        } = self;
        if let Some(id) = session {
            let answer = answer.and_then(|answer| prompt.map(|prompt| (messages, prompt, answer)));
            let open = shared.sessions().end_turn(id, answer);
            if !open {
                shared.queue.forget(id);
            }
        }
        let receipt = Receipt {
            reason: outcome.reason,
            usage: outcome.usage,
        };
        shared.running().retain(|(running, _)| *running != turn);
        let mut model = String::new();
        // Whoever sees `done` must find the request gone from the queue.
        shared.publish(|status| {
            status.queue_length = status.queue_length.saturating_sub(1);
            status.receipt = Some(receipt);
            model.clone_from(&status.model.name);
        });
        let failure = outcome.error.as_ref().map(without_quotes);
        let _ = events.send(Event::Done(outcome));
        let request = journal::Request {
            id: turn,
            session: session.map(|SessionId(id)| id),
            client: &client.name,
            client_uid: client.user,
            model: &model,
        };
        match failure {
            None => journal::request_finished(&request, &receipt),
            Some(error) => {
                observe::gpu_error(&error);
                journal::request_failed(&request, &error);
            }
        }
    }
}

/// The error without what a chat template may quote of the messages: the journal never holds any of them.
fn without_quotes(error: &RequestError) -> String {
    match error {
        RequestError::Refused(Refusal::InvalidMessages(_)) => {
            "the chat template refused its messages".to_owned()
        }
        error => error.to_string(),
    }
}

/// Turns that wait, oldest first, and what else the engine thread is asked.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) progress: Progress,
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    turns: VecDeque<Turn>,
    controls: VecDeque<Control>,
    /// Sessions of which the engine thread has taken a turn, so that it may hold something of them.
    held: HashSet<SessionId>,
    closed: bool,
    /// Nobody is left to do anything.
    abandoned: bool,
}

impl Waiting {
    fn take(&mut self) -> Option<Command> {
        if let Some(control) = self.controls.pop_front() {
            return Some(Command::Control(control));
        }
        let turn = self.turns.pop_front()?;
        self.held.extend(turn.session);
        Some(Command::Turn(turn))
    }
}

/// What the engine thread does next.
#[derive(Debug)]
pub enum Command {
    Turn(Turn),
    Control(Control),
}

/// What is done between turns, or, if it concerns no session, between tokens.
#[derive(Debug)]
pub enum Control {
    /// A session has closed: its KV is free.
    Forget(SessionId),
    /// Turns of a session were taken back: only so many of its tokens count.
    Rewind { session: SessionId, keep: usize },
    /// Drop the decode graph.
    ResetGraph(oneshot::Sender<Result<(), RequestError>>),
    /// The decode graph in DOT.
    DumpGraph(oneshot::Sender<Result<String, RequestError>>),
    /// Record steps in another way.
    SetMode(Mode, oneshot::Sender<Result<(), String>>),
    /// Another model takes the place of the one that runs.
    Replace(Box<Replacement>),
}

impl Control {
    /// Whether it can be done while a turn runs.
    const fn is_urgent(&self) -> bool {
        matches!(self, Self::ResetGraph(_) | Self::DumpGraph(_))
    }

    /// The session that it takes back turns of.
    const fn rewinds(&self) -> Option<SessionId> {
        match self {
            Self::Rewind { session, .. } => Some(*session),
            _ => None,
        }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // A panic elsewhere leaves the queue itself whole.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts `turn` at the end, or drops it with the reason.
    pub(super) fn push(&self, turn: Turn, limits: &Limits) -> Result<(), Refusal> {
        let mut waiting = self.lock();
        if waiting.closed {
            return Err(Refusal::NotReady("the daemon is stopping".into()));
        }
        if waiting.turns.len() >= limits.queue {
            return Err(Refusal::Busy {
                capacity: limits.queue,
            });
        }
        let user = turn.client.user;
        let theirs = waiting.turns.iter().filter(|turn| turn.client.user == user);
        let share = limits.user_queue();
        if theirs.count() >= share {
            let percent = limits.user.queue_percent;
            return Err(Refusal::UserQueue {
                user,
                share,
                percent,
            });
        }
        waiting.turns.push_back(turn);
        self.progress.set_idle(false);
        self.changed.notify_one();
        Ok(())
    }

    pub(super) fn remove(&self, id: u64) -> Option<Turn> {
        let mut waiting = self.lock();
        let at = waiting.turns.iter().position(|turn| turn.id == id)?;
        waiting.turns.remove(at)
    }

    pub(super) fn drain(&self) -> Vec<Turn> {
        self.lock().turns.drain(..).collect()
    }

    /// Asks the engine thread; what has nobody to answer any more is dropped, and whoever waits for it is told.
    pub(super) fn control(&self, control: Control) {
        self.add(&mut self.lock(), control);
    }

    fn add(&self, waiting: &mut Waiting, control: Control) {
        if !waiting.abandoned {
            waiting.controls.push_back(control);
            self.progress.set_idle(false);
        }
        self.changed.notify_one();
    }

    /// A session has closed. At most one thing waits for each that the engine thread knows, however many come and go.
    pub(super) fn forget(&self, session: SessionId) {
        let mut waiting = self.lock();
        if waiting.held.remove(&session) {
            let controls = &mut waiting.controls;
            controls.retain(|control| control.rewinds() != Some(session));
            self.add(&mut waiting, Control::Forget(session));
        }
    }

    /// Turns of a session were taken back. What waits already of that session is changed: until it has been done no turn
    /// runs, so the least that is kept is what both keep.
    pub(super) fn rewind(&self, session: SessionId, keep: usize) {
        let mut waiting = self.lock();
        if !waiting.held.contains(&session) {
            return;
        }
        for control in &mut waiting.controls {
            if let Control::Rewind {
                session: of,
                keep: kept,
            } = control
                && *of == session
            {
                *kept = keep.min(*kept);
                return;
            }
        }
        self.add(&mut waiting, Control::Rewind { session, keep });
    }

    /// Nobody is left: whoever waits for an answer learns that none will come.
    pub(super) fn abandon(&self) {
        let mut waiting = self.lock();
        waiting.abandoned = true;
        waiting.closed = true;
        waiting.controls.clear();
        let turns = std::mem::take(&mut waiting.turns);
        self.progress.set_idle(true);
        drop(waiting);
        for turn in turns {
            let message = "the engine has ended; the service restarts it".to_owned();
            turn.fail(RequestError::EngineFailed(message), Usage::default());
        }
    }

    pub(super) fn urgent(&self) -> Option<Control> {
        let mut waiting = self.lock();
        let at = waiting.controls.iter().position(Control::is_urgent)?;
        waiting.controls.remove(at)
    }

    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    pub(super) fn next(&self) -> Option<Command> {
        self.progress.enter(Phase::Between);
        let mut waiting = self.lock();
        loop {
            if let Some(command) = waiting.take() {
                return Some(command);
            }
            // Only this thread says so: one that hangs must not seem idle because those who waited for it gave up.
            self.progress.set_idle(true);
            if waiting.closed {
                return None;
            }
            waiting = self
                .changed
                .wait(waiting)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests;
