//! Conversations that the engine remembers between turns.

use std::collections::HashMap;

use super::encoder::Encoded;
use super::{Answer, Client, Limits, Message, Refusal, Role};

/// Unique within the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub u64);

/// What its owner may read of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionStatus {
    /// Finished turns: one user message and one answer each.
    pub turns: u32,
    /// Tokens of the conversation so far.
    pub context_used: u32,
    /// Whether a turn is queued or running.
    pub busy: bool,
}

/// A message of a conversation, as its owner may read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    pub message: Message,
    /// An answer that was cancelled, or out of time, before the model had ended it.
    pub partial: bool,
}

/// A turn that has ended with an answer.
#[derive(Debug)]
pub(super) struct Answered {
    /// The conversation up to the question.
    pub(super) messages: Vec<Message>,
    pub(super) prompt: Encoded,
    pub(super) answer: Answer,
    pub(super) partial: bool,
}

/// A conversation: its messages, and the tokens that they became.
#[derive(Debug)]
pub(super) struct Session {
    client: Client,
    pub(super) messages: Vec<Message>,
    pub(super) last: Option<(Encoded, Answer)>,
    /// The turn that is being encoded, waits or is answered.
    turn: Option<u64>,
    context_used: u32,
    /// What it was before each of its turns, oldest first.
    before: Vec<Before>,
}

/// A conversation as it was before a turn, and what became of the turn.
#[derive(Debug)]
struct Before {
    /// Whether its answer is partial.
    partial: bool,
    messages: usize,
    context_used: u32,
    /// Only of the latest turns: these hold all tokens of their past.
    last: Option<(Encoded, Answer)>,
}

/// How many turns can be taken back without encoding the rest anew.
const REMEMBERED: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Sessions {
    open: HashMap<SessionId, Session>,
    next: u64,
}

/// What a turn of a session starts from.
pub(super) struct Past {
    pub(super) client: Client,
    pub(super) messages: Vec<Message>,
    pub(super) last: Option<(Encoded, Answer)>,
}

impl Sessions {
    pub(super) fn open(
        &mut self,
        client: Client,
        system: Option<String>,
        limits: &Limits,
    ) -> Result<SessionId, Refusal> {
        if self.open.len() >= limits.sessions {
            return Err(Refusal::TooManySessions(limits.sessions));
        }
        let (user, sessions) = (client.user, limits.user.sessions);
        let theirs = self.open.values().filter(|one| one.client.user == user);
        if theirs.count() >= sessions {
            return Err(Refusal::UserSessions { user, sessions });
        }
        self.next += 1;
        let id = SessionId(self.next);
        let messages = system
            .map(|content| Message::new(Role::System, content))
            .into_iter()
            .collect();
        self.open.insert(
            id,
            Session {
                client,
                messages,
                last: None,
                turn: None,
                context_used: 0,
                before: Vec::new(),
            },
        );
        Ok(id)
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// Its turn, if it has one, is to end.
    pub(super) fn close(&mut self, id: SessionId) -> Result<Option<u64>, Refusal> {
        let session = self.open.remove(&id).ok_or(Refusal::SessionClosed)?;
        Ok(session.turn)
    }

    pub(super) fn status(&self, id: SessionId) -> Option<SessionStatus> {
        let session = self.open.get(&id)?;
        Some(SessionStatus {
            turns: session.turns(),
            context_used: session.context_used,
            busy: session.turn.is_some(),
        })
    }

    pub(super) fn history(&self, id: SessionId) -> Option<Vec<Said>> {
        let session = self.open.get(&id)?;
        let mut said: Vec<_> = session.messages.iter().cloned().map(Said::whole).collect();
        let ends = session.before.iter().skip(1).map(|before| before.messages);
        // Each turn ends with its answer.
        let ends = ends.chain([session.messages.len()]);
        for (before, end) in session.before.iter().zip(ends) {
            if let Some(answer) = end.checked_sub(1).and_then(|last| said.get_mut(last)) {
                answer.partial = before.partial;
            }
        }
        Some(said)
    }

    /// The session is busy with this turn until `end_turn`.
    pub(super) fn begin_turn(&mut self, id: SessionId, ticket: u64) -> Result<Past, Refusal> {
        let session = self.idle(id)?;
        session.turn = Some(ticket);
        Ok(Past {
            client: session.client.clone(),
            messages: session.messages.clone(),
            last: session.last.clone(),
        })
    }

    /// Ends a turn; with an answer the conversation grows by it. The session may have been closed meanwhile.
    pub(super) fn end_turn(&mut self, id: SessionId, answered: Option<Answered>) {
        let Some(session) = self.open.get_mut(&id) else {
            return;
        };
        session.turn = None;
        if let Some(Answered {
            mut messages,
            prompt: encoded,
            answer,
            partial,
        }) = answered
        {
            messages.push(answer.message.clone());
            let before = Before {
                partial,
                messages: session.messages.len(),
                context_used: session.context_used,
                last: session.last.take(),
            };
            session.before.push(before);
            if let Some(at) = session.before.len().checked_sub(REMEMBERED + 1) {
                session.before[at].last = None;
            }
            session.messages = messages;
            let answered = answer.tokens.as_ref().map_or(0, Vec::len);
            session.context_used =
                u32::try_from(encoded.prompt.tokens.len() + answered).unwrap_or(u32::MAX);
            session.last = Some((encoded, answer));
        }
    }

    /// Takes back turns; tells how many tokens of the conversation are left, if any turn was taken back.
    pub(super) fn rewind(&mut self, id: SessionId, turns: u32) -> Result<Option<usize>, Refusal> {
        let session = self.idle(id)?;
        let refused = Refusal::Turns {
            asked: turns,
            turns: session.turns(),
        };
        let left = session.turns().checked_sub(turns).ok_or(refused)?;
        let taken = session.rewind(left as usize);
        Ok(taken.then_some(session.context_used as usize))
    }

    /// Takes back all turns; tells whether there was any.
    pub(super) fn clear(&mut self, id: SessionId) -> Result<bool, Refusal> {
        self.idle(id).map(|session| session.rewind(0))
    }

    fn idle(&mut self, id: SessionId) -> Result<&mut Session, Refusal> {
        let session = self.open.get_mut(&id).ok_or(Refusal::SessionClosed)?;
        if session.turn.is_some() {
            return Err(Refusal::SessionBusy);
        }
        Ok(session)
    }
}

impl Said {
    fn whole(message: Message) -> Self {
        Self {
            message,
            partial: false,
        }
    }
}

impl Session {
    fn turns(&self) -> u32 {
        u32::try_from(self.before.len()).unwrap_or(u32::MAX)
    }

    /// Back to what it was after so many turns; `false` if it has no more.
    fn rewind(&mut self, turns: usize) -> bool {
        let Some(before) = self.before.drain(turns..).next() else {
            return false;
        };
        self.messages.truncate(before.messages);
        self.context_used = before.context_used;
        self.last = before.last;
        true
    }
}
