//! Conversations that the engine remembers between turns.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::Notify;

use super::encoder::{Encoded, Last};
use super::ids::Ids;
use super::kept::{Kept, Named};
use super::overflow::Talk;
use super::{Answer, Client, ConnectionName, Limits, Message, Refusal};
use crate::kv_store::Place;
use crate::session_store::{Context, Entry, Past as Stored, Tokens, Trail, Turn, now};

/// Unique within the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub u64);

/// A session in the hands of one holder. It ends when the session does, or when another connection takes the session: calls
/// with an ended lease are refused as those of a closed session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    pub(super) session: SessionId,
    number: u64,
}

/// A new lease, and the one that it ends, with its holder.
pub(super) type HandedOver = (Lease, Option<(Lease, ConnectionName)>);

impl Lease {
    /// A lease of a session, by its random number.
    pub(super) fn new(session: SessionId, number: u64) -> Self {
        Self { session, number }
    }

    /// The session.
    #[must_use]
    pub fn session(self) -> SessionId {
        self.session
    }

    /// A number of 64 random bits that no other lease has.
    #[must_use]
    pub fn number(self) -> u64 {
        self.number
    }

    /// Whether this is the lease with that number, or stands for any of its session.
    pub(super) fn is(self, number: u64) -> bool {
        self.number == ANY || self.number == number
    }
}

/// No lease has this number.
const ANY: u64 = 0;

impl From<SessionId> for Lease {
    /// Stands for the session, independent of its holder.
    fn from(session: SessionId) -> Self {
        Self::new(session, ANY)
    }
}

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
    /// Whether its turn was dropped at the context's end: the model does not read it any more.
    pub dropped: bool,
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
    /// The number of its holder's lease.
    lease: u64,
    /// What it is called, if it belongs to a user rather than to a connection.
    pub(super) named: Option<Named>,
    /// Where pages of the session are kept that it was branched from: they begin as its own would.
    pub(super) origin: Option<Place>,
    /// The session that it was branched from, which may have ended.
    pub(super) parent: Option<SessionId>,
    /// Shared with branches until one of them goes on; whoever reads them all does so without holding the sessions.
    messages: Arc<Vec<Message>>,
    /// It began with so many of these.
    head: usize,
    /// So many of them go up to the end of the last turn; what comes after them was appended.
    settled: usize,
    /// The turn that is being encoded, waits or is answered.
    pub(super) turn: Option<u64>,
    /// Whether that only reads ahead, and makes way for whatever comes.
    warms: bool,
    /// Calls that have used it: each stops a prefill ahead.
    uses: u64,
    /// Its turns, oldest first.
    ended: Vec<Ended>,
    /// The tokens of these.
    trail: Trail,
}

/// A turn of a conversation.
#[derive(Clone, Debug)]
struct Ended {
    /// Whether its answer is partial.
    partial: bool,
    /// How many messages came before it.
    begins: usize,
    /// What its prompt was rendered with.
    thinking: Option<bool>,
    tools: Option<Arc<str>>,
    /// Only the latest turns have it, which hold all text of their past; of another one the tokens are in the trail.
    last: Option<Last>,
}

/// Beside the newest turn so many others are held with more than their tokens.
const REMEMBERED: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Sessions {
    pub(super) open: HashMap<SessionId, Session>,
    next: u64,
    /// The numbers of leases.
    leases: Ids,
    /// How often one with a name was let go.
    pub(super) let_go: u64,
    /// A turn of any has ended.
    pub(super) ended: Arc<Notify>,
}

/// What a turn of a session starts from.
pub(super) struct Past {
    pub(super) client: Client,
    pub(super) talk: Talk,
    pub(super) last: Option<Last>,
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
        lease: Lease,
        client: Client,
        limits: &Limits,
    ) -> Result<SessionId, Refusal> {
        self.admit(client.user, limits)?;
        let id = lease.session;
        let origin = self.origin(id);
        let other = self.idle(lease)?;
        let branch = Session {
            client,
            lease: 0,
            named: None,
            origin,
            parent: Some(id),
            messages: other.messages.clone(),
            head: other.head,
            settled: other.settled,
            turn: None,
            warms: false,
            uses: 0,
            ended: other.ended.clone(),
            trail: other.trail.clone(),
        };
        Ok(self.add(branch))
    }

    pub(super) fn add(&mut self, mut session: Session) -> SessionId {
        self.next += 1;
        let id = SessionId(self.next);
        session.lease = self.new_lease();
        self.open.insert(id, session);
        id
    }

    fn new_lease(&self) -> u64 {
        let is_used = |number| self.open.values().any(|one| one.lease == number);
        self.leases.next(is_used)
    }

    /// The lease of a session's holder.
    pub(super) fn lease(&self, id: SessionId) -> Option<Lease> {
        let session = self.open.get(&id)?;
        Some(Lease::new(id, session.lease))
    }

    /// Gives a session with a name to a connection: any other lease of it ends. Returns the new lease, and the one before
    /// with its holder, if there was one.
    pub(super) fn hand_over(
        &mut self,
        id: SessionId,
        client: &Client,
    ) -> Result<HandedOver, Refusal> {
        let before = self.lease(id).ok_or(Refusal::SessionClosed)?;
        let number = self.new_lease();
        let session = self.open.get_mut(&id).ok_or(Refusal::SessionClosed)?;
        let named = session.named.as_mut().ok_or(Refusal::SessionClosed)?;
        let holder = named.holder.replace(client.name.clone());
        session.client = client.clone();
        session.lease = number;
        let before = holder.map(|holder| (before, holder));
        Ok((Lease::new(id, number), before))
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
            context_used: session.context_used(),
            busy: session.turn.is_some() && !session.warms,
        })
    }

    pub(super) fn history(&self, id: SessionId) -> Option<History> {
        let session = self.open.get(&id)?;
        // Each turn ends with its answer.
        let turns = session.ended.iter().zip(session.starts().skip(1));
        let answers = turns.filter(|(turn, _)| turn.partial);
        Some(History {
            messages: Arc::clone(&session.messages),
            partial: answers.filter_map(|(_, end)| end.checked_sub(1)).collect(),
        })
    }

    /// The session is busy with this turn until `end_turn`.
    pub(super) fn begin_turn(&mut self, lease: Lease, ticket: u64) -> Result<Past, Refusal> {
        let session = self.idle(lease)?;
        session.turn = Some(ticket);
        Ok(Past {
            client: session.client.clone(),
            talk: Talk {
                messages: session.messages.to_vec(),
                turns: session.starts().collect(),
                dropped: 0,
            },
            last: session.last(),
        })
    }

    /// Begins a turn that only prefills.
    pub(super) fn begin_prefill(&mut self, lease: Lease, ticket: u64) -> Result<Past, Refusal> {
        let past = self.begin_turn(lease, ticket)?;
        if let Some(session) = self.open.get_mut(&lease.session) {
            session.warms = true;
        }
        Ok(past)
    }

    /// Begins a turn that only prefills, unless the session has been used since it had been `uses` times, or has no holder.
    pub(super) fn begin_idle_prefill(
        &mut self,
        id: SessionId,
        ticket: u64,
        uses: u64,
    ) -> Option<Past> {
        let session = self.open.get(&id)?;
        let named = session.named.as_ref();
        let is_held = named.is_none_or(|named| named.holder.is_some());
        let is_same = is_held && session.uses == uses;
        let lease = Lease::new(id, session.lease);
        is_same.then(|| self.begin_prefill(lease, ticket).ok())?
    }

    /// Counts a call that uses a session.
    pub(super) fn count_use(&mut self, id: SessionId) {
        if let Some(session) = self.open.get_mut(&id) {
            session.uses += 1;
        }
    }

    /// Returns how many calls have used a session.
    pub(super) fn uses(&self, id: SessionId) -> Option<u64> {
        self.open.get(&id).map(|session| session.uses)
    }

    /// Returns the turn that a session has.
    pub(super) fn turn(&self, id: SessionId) -> Option<u64> {
        self.open.get(&id)?.turn
    }

    /// Returns the newest turn of a session that has been used so many times.
    pub(super) fn last(&self, id: SessionId, uses: u64) -> Option<Last> {
        let session = self.open.get(&id)?;
        session.last().filter(|_| session.uses == uses)
    }

    /// Returns the turns that only prefill.
    pub(super) fn prefills(&self) -> Vec<u64> {
        let prefills = self.open.values().filter(|session| session.warms);
        prefills.filter_map(|session| session.turn).collect()
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

    /// The session of a lease, if it has no turn.
    pub(super) fn idle(&mut self, lease: Lease) -> Result<&mut Session, Refusal> {
        let session = self.open.get_mut(&lease.session);
        let session = session.filter(|session| lease.is(session.lease));
        let session = session.ok_or(Refusal::SessionClosed)?;
        if session.turn.is_some() {
            return Err(Refusal::SessionBusy);
        }
        Ok(session)
    }
}

impl History {
    /// What was said so far, the oldest first.
    pub(super) fn said(&self) -> Vec<Said> {
        let said = |(at, message): (usize, &Message)| Said {
            message: message.clone(),
            partial: self.partial.binary_search(&at).is_ok(),
            dropped: false,
        };
        self.messages.iter().enumerate().map(said).collect()
    }
}

impl Session {
    pub(super) fn new(client: Client, named: Option<Named>, messages: Vec<Message>) -> Self {
        Self {
            client,
            lease: 0,
            named,
            origin: None,
            parent: None,
            head: messages.len(),
            settled: messages.len(),
            messages: Arc::new(messages),
            turn: None,
            warms: false,
            uses: 0,
            ended: Vec::new(),
            trail: Trail::default(),
        }
    }

    /// As its file tells it.
    pub(super) fn resumed(client: Client, named: Named, past: Stored) -> Self {
        let mut session = Self::new(client, Some(named), past.messages);
        let mut messages = session.messages.to_vec();
        for turn in past.turns {
            session.ended.push(Ended {
                partial: turn.partial,
                begins: messages.len(),
                thinking: turn.thinking,
                tools: turn.tools.map(Arc::from),
                last: None,
            });
            messages.extend(turn.messages);
            messages.push(turn.answer);
        }
        session.settled = messages.len();
        messages.extend(past.appended);
        session.messages = Arc::new(messages);
        session.trail = past.trail;
        session.remember();
        session
    }

    /// The newest turn, from which the next one goes on.
    fn last(&self) -> Option<Last> {
        self.ended.last()?.last.clone()
    }

    /// Has the newest turn at hand, of which there may be only the tokens.
    fn remember(&mut self) {
        let (Some(turn), Some(newest)) = (self.ended.last_mut(), self.trail.newest()) else {
            return;
        };
        if turn.last.is_some() {
            return;
        }
        let Context {
            mut tokens,
            mut decoded,
        } = self.trail.context();
        let answered = tokens.split_off(newest.asked());
        let said = decoded.pop_if(|range| range.start >= newest.asked());
        // The last message is the answer.
        let Some((message, asked)) = self.messages[..self.settled].split_last() else {
            return;
        };
        let tools = turn.tools.clone();
        let prompt = Encoded::kept((tokens, decoded), asked.len(), turn.thinking, tools);
        let answer = Answer {
            message: message.clone(),
            tokens: newest.answer.is_some().then_some(answered),
            said: said.map_or(0, |said| said.len()),
        };
        turn.last = Some(Arc::new((prompt, answer)));
    }

    /// What it began with.
    pub(super) fn beginning(&self) -> &[Message] {
        &self.messages[..self.head]
    }

    pub(super) fn turns(&self) -> u32 {
        u32::try_from(self.ended.len()).unwrap_or(u32::MAX)
    }

    /// Tokens of it so far.
    fn context_used(&self) -> u32 {
        u32::try_from(self.trail.length()).unwrap_or(u32::MAX)
    }

    /// What is to be kept of a turn.
    fn entry(&self, answered: &Answered) -> Entry {
        let gone = self.messages_of(answered.dropped);
        Entry::Turn(Box::new(Turn {
            at: now(),
            dropped: answered.dropped,
            messages: answered.messages[self.messages.len() - gone..].to_vec(),
            answer: answered.answer.message.clone(),
            partial: answered.partial,
            thinking: answered.thinking,
            tools: answered.tools.clone(),
            tokens: self.tokens(answered),
        }))
    }

    /// The tokens of a turn, of which it may have some of the turn before it.
    fn tokens(&self, answered: &Answered) -> Tokens {
        let Encoded { prompt, said, .. } = &answered.prompt;
        // What goes on without its oldest turns needs nothing of theirs.
        let anew = answered.dropped > 0 && said.is_empty();
        let kept = if anew {
            0
        } else {
            self.trail.common(&prompt.tokens, said)
        };
        Tokens {
            kept,
            prompt: prompt.tokens[kept..].to_vec(),
            answer: answered.answer.tokens.clone(),
            said: answered.answer.said,
        }
    }

    /// Where each of its turns begins, and at last where what follows them does.
    fn starts(&self) -> impl Iterator<Item = usize> {
        let starts = self.ended.iter().map(|turn| turn.begins);
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
        let turns = self.ended.len().min(turns as usize);
        self.ended.drain(..turns);
        self.trail.forget(turns);
        for turn in &mut self.ended {
            turn.begins -= gone;
            turn.last = None;
        }
        self.settled -= gone;
    }

    /// Goes on by a turn.
    fn grow(&mut self, answered: Answered) {
        let tokens = self.tokens(&answered);
        let Answered {
            mut messages,
            dropped,
            prompt,
            answer,
            partial,
            thinking,
            tools,
        } = answered;
        self.trail.push(tokens);
        if dropped > 0 {
            self.drop_oldest(dropped);
        }
        messages.push(answer.message.clone());
        self.ended.push(Ended {
            partial,
            begins: self.settled,
            thinking,
            tools: tools.map(Arc::from),
            last: Some(Arc::new((prompt, answer))),
        });
        if let Some(at) = self.ended.len().checked_sub(REMEMBERED + 2) {
            self.ended[at].last = None;
        }
        self.settled = messages.len();
        self.messages = Arc::new(messages);
    }

    /// The conversation with more said in it, of which at least the number is bounded.
    pub(super) fn with(&self, said: &[Message], most: usize) -> Result<Vec<Message>, Refusal> {
        let tokens = self.messages.len() + said.len();
        if tokens > most {
            // Each is a token at least.
            let context = most;
            return Err(Refusal::ContextFull { tokens, context });
        }
        Ok([&self.messages[..], said].concat())
    }

    /// Adds messages after the last turn, without an answer.
    pub(super) fn append(&mut self, messages: Vec<Message>) {
        Arc::make_mut(&mut self.messages).extend(messages);
    }

    /// Has no more than the first so many messages.
    fn keep(&mut self, messages: usize) {
        if let Some(own) = Arc::get_mut(&mut self.messages) {
            own.truncate(messages);
        } else if messages < self.messages.len() {
            self.messages = Arc::new(self.messages[..messages].to_vec());
        }
    }

    /// Whether something would be taken back to have it end with so many turns.
    pub(super) fn goes_beyond(&self, turns: u32) -> bool {
        self.turns() > turns || self.messages.len() > self.settled
    }

    /// Back to what it was after so many turns, without what was appended since; tells how many tokens are left, if it had
    /// more turns.
    pub(super) fn rewind(&mut self, turns: u32) -> Option<usize> {
        self.keep(self.settled);
        let turns = self.ended.len().min(turns as usize);
        let first = self.ended.drain(turns..).next()?;
        self.settled = first.begins;
        self.keep(self.settled);
        self.trail.truncate(turns);
        self.remember();
        Some(self.trail.length())
    }
}
