//! Conversations that the engine remembers between turns.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::Notify;

use super::encoder::{Encoded, was_said};
use super::kept::{Kept, Named};
use super::overflow::Talk;
use super::{Answer, Client, Limits, Message, Refusal};
use crate::session_store::{Context, Entry, Past as Stored, PastTurn, Tokens, Turn, now};

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

/// A conversation as it was at some moment.
pub(super) struct History {
    messages: Arc<Vec<Message>>,
    /// Where its partial answers are, oldest first.
    partial: Vec<usize>,
}

/// A turn that has ended with an answer.
#[derive(Debug)]
pub(super) struct Answered {
    /// The conversation up to the question.
    pub(super) messages: Vec<Message>,
    /// Its oldest turns that are not in it any more.
    pub(super) dropped: u32,
    pub(super) prompt: Encoded,
    pub(super) answer: Answer,
    pub(super) partial: bool,
    /// What its prompt was rendered with.
    pub(super) thinking: Option<bool>,
    pub(super) tools: Option<String>,
}

/// A conversation: its messages, and the tokens that they became.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) client: Client,
    /// What it is called, if it belongs to a user rather than to a connection.
    pub(super) named: Option<Named>,
    /// Whoever reads them all does so without holding the sessions.
    messages: Arc<Vec<Message>>,
    /// Of these, the ones that it began with.
    head: usize,
    /// Those up to the end of the last turn; what comes after them was appended.
    settled: usize,
    last: Option<(Encoded, Answer)>,
    /// The turn that is being encoded, waits or is answered.
    pub(super) turn: Option<u64>,
    /// Whether that only reads ahead, and makes way for whatever comes.
    warms: bool,
    context_used: u32,
    /// What it was before each of its turns, oldest first.
    before: Vec<Before>,
}

/// A conversation as it was before a turn, and what became of the turn.
#[derive(Clone, Debug)]
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
    pub(super) open: HashMap<SessionId, Session>,
    next: u64,
    /// How often one with a name was let go.
    pub(super) let_go: u64,
    /// A turn of any has ended.
    pub(super) ended: Arc<Notify>,
}

/// What a turn of a session starts from.
pub(super) struct Past {
    pub(super) client: Client,
    pub(super) talk: Talk,
    pub(super) last: Option<(Encoded, Answer)>,
}

impl Sessions {
    /// Opens a session of a connection, which begins with these messages.
    pub(super) fn open(
        &mut self,
        client: Client,
        messages: Vec<Message>,
        limits: &Limits,
    ) -> Result<SessionId, Refusal> {
        self.admit(client.user, limits)?;
        Ok(self.add(Session::new(client, None, messages)))
    }

    /// Whether a user may hold one more.
    pub(super) fn admit(&self, user: u32, limits: &Limits) -> Result<(), Refusal> {
        if self.len() >= limits.sessions {
            return Err(Refusal::TooManySessions(limits.sessions));
        }
        let sessions = limits.user.sessions;
        let theirs = self.counted().filter(|one| one.client.user == user);
        if theirs.count() >= sessions {
            return Err(Refusal::UserSessions { user, sessions });
        }
        Ok(())
    }

    /// Opens a session of a connection that has the past of another, and goes its own way.
    pub(super) fn branch(
        &mut self,
        id: SessionId,
        client: Client,
        limits: &Limits,
    ) -> Result<SessionId, Refusal> {
        self.admit(client.user, limits)?;
        let other = self.idle(id)?;
        let branch = Session {
            client,
            named: None,
            messages: other.messages.clone(),
            head: other.head,
            settled: other.settled,
            last: other.last.clone(),
            turn: None,
            warms: false,
            context_used: other.context_used,
            before: other.before.clone(),
        };
        Ok(self.add(branch))
    }

    pub(super) fn add(&mut self, session: Session) -> SessionId {
        self.next += 1;
        let id = SessionId(self.next);
        self.open.insert(id, session);
        id
    }

    /// Those that somebody holds, or that are nowhere else.
    fn counted(&self) -> impl Iterator<Item = &Session> {
        let rests = |session: &&Session| session.named.as_ref().is_some_and(Named::rests);
        self.open.values().filter(move |session| !rests(session))
    }

    pub(super) fn len(&self) -> usize {
        self.counted().count()
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
            busy: session.turn.is_some() && !session.warms,
        })
    }

    pub(super) fn history(&self, id: SessionId) -> Option<History> {
        let session = self.open.get(&id)?;
        let ends = session.before.iter().skip(1).map(|before| before.messages);
        // Each turn ends with its answer.
        let ends = ends.chain([session.settled]);
        let turns = session.before.iter().zip(ends);
        let answers = turns.filter(|(before, _)| before.partial);
        Some(History {
            messages: session.messages.clone(),
            partial: answers.filter_map(|(_, end)| end.checked_sub(1)).collect(),
        })
    }

    /// The session is busy with this turn until `end_turn`.
    pub(super) fn begin_turn(&mut self, id: SessionId, ticket: u64) -> Result<Past, Refusal> {
        let session = self.idle(id)?;
        session.turn = Some(ticket);
        Ok(Past {
            client: session.client.clone(),
            talk: Talk {
                messages: session.messages.to_vec(),
                turns: session.starts().collect(),
                dropped: 0,
            },
            last: session.last.clone(),
        })
    }

    /// The turn of a session only reads ahead.
    pub(super) fn warm(&mut self, id: SessionId) {
        if let Some(session) = self.open.get_mut(&id) {
            session.warms = true;
        }
    }

    /// Whether a session has such a turn.
    pub(super) fn warms(&self, id: SessionId) -> bool {
        self.open.get(&id).is_some_and(|session| session.warms)
    }

    /// What is to be kept of a turn of a session that is kept, and where.
    pub(super) fn entry(&self, id: SessionId, answered: &Answered) -> Option<(Kept, Entry)> {
        let session = self.open.get(&id)?;
        Some((session.file()?.clone(), session.entry(answered)))
    }

    /// Ends a turn; with an answer the conversation grows by it. The session may have been closed meanwhile.
    pub(super) fn end_turn(&mut self, id: SessionId, answered: Option<Answered>) {
        self.ended.notify_waiters();
        let Some(session) = self.open.get_mut(&id) else {
            return;
        };
        session.turn = None;
        session.warms = false;
        if let Some(answered) = answered {
            session.grow(answered);
        }
    }

    /// Where a session is kept, if it is.
    pub(super) fn file(&self, id: SessionId) -> Option<Kept> {
        self.open.get(&id)?.file().cloned()
    }

    /// The session, if it has no turn.
    pub(super) fn idle(&mut self, id: SessionId) -> Result<&mut Session, Refusal> {
        let session = self.open.get_mut(&id).ok_or(Refusal::SessionClosed)?;
        if session.turn.is_some() {
            return Err(Refusal::SessionBusy);
        }
        Ok(session)
    }
}

impl History {
    /// All that was said, oldest first.
    pub(super) fn said(&self) -> Vec<Said> {
        let said = |(at, message): (usize, &Message)| Said {
            message: message.clone(),
            partial: self.partial.binary_search(&at).is_ok(),
        };
        self.messages.iter().enumerate().map(said).collect()
    }
}

impl Session {
    pub(super) fn new(client: Client, named: Option<Named>, messages: Vec<Message>) -> Self {
        Self {
            client,
            named,
            head: messages.len(),
            settled: messages.len(),
            messages: Arc::new(messages),
            last: None,
            turn: None,
            warms: false,
            context_used: 0,
            before: Vec::new(),
        }
    }

    /// As its file tells it.
    pub(super) fn resumed(client: Client, named: Named, past: Stored) -> Self {
        let mut session = Self::new(client, Some(named), past.messages);
        let forgotten = past.turns.len().saturating_sub(REMEMBERED + 1);
        for (n, turn) in past.turns.into_iter().enumerate() {
            session.resume(turn, n >= forgotten);
        }
        session.append(past.appended);
        session
    }

    /// Goes on by a turn that was kept.
    fn resume(&mut self, turn: PastTurn, remembered: bool) {
        let mut messages = self.messages.to_vec();
        messages.extend(turn.messages);
        let asked = messages.len();
        let Context {
            mut tokens,
            decoded: mut said,
        } = turn.context;
        let answer = tokens.split_off(turn.prompt.min(tokens.len()));
        let of_answer = said.partition_point(|range| range.start < turn.prompt);
        let of_answer = said
            .split_off(of_answer)
            .iter()
            .map(ExactSizeIterator::len)
            .sum();
        self.grow(Answered {
            messages,
            dropped: 0,
            prompt: Encoded::kept((tokens, said), asked, turn.thinking, turn.tools.clone()),
            answer: Answer {
                message: turn.answer,
                tokens: turn.whole.then_some(answer),
                said: of_answer,
            },
            partial: turn.partial,
            thinking: turn.thinking,
            tools: turn.tools,
        });
        if !remembered {
            self.last = None;
        }
    }

    /// What it began with.
    pub(super) fn beginning(&self) -> &[Message] {
        &self.messages[..self.head]
    }

    pub(super) fn turns(&self) -> u32 {
        u32::try_from(self.before.len()).unwrap_or(u32::MAX)
    }

    /// What is to be kept of a turn.
    fn entry(&self, answered: &Answered) -> Entry {
        let prompt = &answered.prompt.prompt.tokens;
        let kept = self.last.as_ref().map_or(0, |(encoded, answer)| {
            let said = answer.tokens.as_deref().unwrap_or_default();
            let known = encoded.prompt.tokens.iter().chain(said).zip(prompt);
            let same = |(at, (before, now)): &(usize, (&u32, &u32))| {
                let made = was_said(encoded, Some(answer), *at);
                before == now && made == was_said(&answered.prompt, None, *at)
            };
            known.enumerate().take_while(same).count()
        });
        let gone = self.messages_of(answered.dropped);
        Entry::Turn(Box::new(Turn {
            at: now(),
            dropped: answered.dropped,
            messages: answered.messages[self.messages.len() - gone..].to_vec(),
            answer: answered.answer.message.clone(),
            partial: answered.partial,
            thinking: answered.thinking,
            tools: answered.tools.clone(),
            tokens: Tokens {
                kept,
                prompt: prompt[kept..].to_vec(),
                answer: answered.answer.tokens.clone(),
                said: answered.answer.said,
            },
        }))
    }

    /// Where each of its turns begins, and at last where what follows them does.
    fn starts(&self) -> impl Iterator<Item = usize> {
        let starts = self.before.iter().map(|before| before.messages);
        starts.chain([self.settled])
    }

    /// How many messages its oldest turns are.
    fn messages_of(&self, turns: u32) -> usize {
        let mut starts = self.starts();
        let first = starts.next().unwrap_or(0);
        let kept = turns.checked_sub(1).and_then(|n| starts.nth(n as usize));
        kept.map_or(0, |kept| kept - first)
    }

    /// Goes on without its oldest turns. The tokens of the others are of a conversation that is no more.
    fn drop_oldest(&mut self, turns: u32) {
        let gone = self.messages_of(turns);
        self.before.drain(..self.before.len().min(turns as usize));
        for before in &mut self.before {
            before.messages -= gone;
            before.last = None;
        }
        self.settled -= gone;
        self.last = None;
    }

    /// Goes on by a turn.
    fn grow(&mut self, answered: Answered) {
        let Answered {
            mut messages,
            dropped,
            prompt: encoded,
            answer,
            partial,
            ..
        } = answered;
        if dropped > 0 {
            self.drop_oldest(dropped);
        }
        messages.push(answer.message.clone());
        self.before.push(Before {
            partial,
            messages: self.settled,
            context_used: self.context_used,
            last: self.last.take(),
        });
        if let Some(at) = self.before.len().checked_sub(REMEMBERED + 1) {
            self.before[at].last = None;
        }
        self.settled = messages.len();
        self.messages = Arc::new(messages);
        let answered = answer.tokens.as_ref().map_or(0, Vec::len);
        self.context_used =
            u32::try_from(encoded.prompt.tokens.len() + answered).unwrap_or(u32::MAX);
        self.last = Some((encoded, answer));
    }

    /// The conversation with more said in it, of which at least the number is bounded.
    pub(super) fn with(&self, said: &[Message], most: usize) -> Result<Vec<Message>, Refusal> {
        let tokens = self.messages.len() + said.len();
        if tokens > most {
            // Each is a token at least.
            let context = most;
            return Err(Refusal::ContextFull { tokens, context });
        }
        Ok([self.messages.as_slice(), said].concat())
    }

    /// Adds messages after the last turn, without an answer.
    pub(super) fn append(&mut self, messages: Vec<Message>) {
        Arc::make_mut(&mut self.messages).extend(messages);
    }

    /// Whether something would be taken back to have it end with so many turns.
    pub(super) fn goes_beyond(&self, turns: u32) -> bool {
        self.turns() > turns || self.messages.len() > self.settled
    }

    /// Back to what it was after so many turns, without what was appended since; tells how many tokens are left, if it had
    /// more turns.
    pub(super) fn rewind(&mut self, turns: u32) -> Option<usize> {
        let messages = Arc::make_mut(&mut self.messages);
        messages.truncate(self.settled);
        let turns = self.before.len().min(turns as usize);
        let before = self.before.drain(turns..).next()?;
        self.settled = before.messages;
        messages.truncate(before.messages);
        self.context_used = before.context_used;
        self.last = before.last;
        Some(self.context_used as usize)
    }
}
