//! Sessions: conversations that the engine remembers between requests.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::Notify;

use super::answer::Answer;
use super::persistent::{Named, SessionFile};
use crate::engine::caller::client::{Client, ConnectionName};
use crate::engine::caller::ids::Ids;
use crate::engine::caller::limits::Limits;
use crate::engine::caller::request::Refusal;
use crate::engine::prompt::encoder::{Encoded, Last};
use crate::engine::prompt::overflow::Talk;
use crate::kv_store::Place;
use crate::model::Message;
use crate::session_store::{Entry, Trail};

/// Unique within the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub u64);

/// The right of one holder to a session. It ends when the session does, or when another connection takes the session. Calls
/// with an ended lease are refused as for a closed session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    pub(crate) session: SessionId,
    number: u64,
}

/// A new lease, and the lease that it ended, with its holder.
pub(crate) type HandedOver = (Lease, Option<(Lease, ConnectionName)>);

impl Lease {
    /// Returns the lease with a random number.
    pub(crate) fn new(session: SessionId, number: u64) -> Self {
        Self { session, number }
    }

    /// Returns the session.
    #[must_use]
    pub fn session(self) -> SessionId {
        self.session
    }

    /// Returns a random number that no other lease has.
    #[must_use]
    pub fn number(self) -> u64 {
        self.number
    }

    /// Whether this is the lease with that number, or stands for any lease.
    pub(crate) fn is(self, number: u64) -> bool {
        self.number == ANY || self.number == number
    }
}

/// The number that stands for any lease.
const ANY: u64 = 0;

impl From<SessionId> for Lease {
    /// Returns a lease that stands for any lease of the session.
    fn from(session: SessionId) -> Self {
        Self::new(session, ANY)
    }
}

/// The status of a session, for its owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionStatus {
    /// Finished turns: one user message and one answer each.
    pub turns: u32,
    /// Tokens of the conversation.
    pub context_used: u32,
    /// Whether a turn is queued or running.
    pub busy: bool,
}

/// A message of a conversation, for the owner of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    pub message: Message,
    /// Whether it is an answer that was cancelled or out of time.
    pub partial: bool,
    /// Whether its turn was dropped from the context.
    pub dropped: bool,
}

/// The messages of a conversation at one moment.
pub(crate) struct History {
    messages: Arc<Vec<Message>>,
    /// The indices of its partial answers, in order.
    partial: Vec<usize>,
}

/// A finished turn with its answer.
#[derive(Debug)]
pub(crate) struct Answered {
    /// The conversation up to the question.
    pub(crate) messages: Vec<Message>,
    /// The number of its oldest turns that were dropped.
    pub(crate) dropped: u32,
    pub(crate) prompt: Encoded,
    pub(crate) answer: Answer,
    pub(crate) partial: bool,
    /// How its prompt was rendered.
    pub(crate) thinking: Option<bool>,
    pub(crate) tools: Option<String>,
}

/// A conversation: its messages, and the tokens that they became.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client: Client,
    /// The number of its holder's lease.
    pub(super) lease: u64,
    /// Its name, if it belongs to a user rather than to a connection.
    pub(crate) named: Option<Named>,
    /// Where the pages of the session that it was branched from are saved. They share its prefix.
    pub(crate) origin: Option<Place>,
    /// The session that it was branched from, which may have ended.
    pub(crate) parent: Option<SessionId>,
    /// Shared with branches until one of them continues, and with readers.
    pub(super) messages: Arc<Vec<Message>>,
    /// The number of messages that it began with.
    pub(super) head: usize,
    /// The number of messages up to the end of the last turn. Later ones were appended.
    pub(super) settled: usize,
    /// The request of its turn, from the call to its end.
    pub(crate) turn: Option<u64>,
    /// Whether that request is a prefill ahead, which any other call stops.
    pub(super) prefills_ahead: bool,
    /// The number of calls that have used it. Each stops a prefill ahead.
    pub(super) uses: u64,
    /// Its turns, oldest first.
    pub(super) ended: Vec<Ended>,
    /// The tokens of its turns.
    pub(super) trail: Trail,
}

/// A turn of a conversation.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    /// Whether its answer is partial.
    pub(super) partial: bool,
    /// The index of its first message.
    pub(super) begins: usize,
    /// How its prompt was rendered.
    pub(super) thinking: Option<bool>,
    pub(super) tools: Option<Arc<str>>,
    /// The turn with all its text; `None` for older turns, whose tokens are in the trail.
    pub(super) last: Option<Last>,
}

#[derive(Debug, Default)]
pub(crate) struct Sessions {
    pub(crate) open: HashMap<SessionId, Session>,
    next: u64,
    /// The numbers of leases.
    leases: Ids,
    /// The number of releases of named sessions.
    pub(crate) releases: u64,
    /// Signals the end of any turn.
    pub(crate) ended: Arc<Notify>,
}

/// What a turn of a session begins with.
pub(crate) struct Past {
    pub(crate) client: Client,
    pub(crate) talk: Talk,
    pub(crate) last: Option<Last>,
}

impl Sessions {
    /// Opens a session of a connection, which begins with `messages`.
    pub(crate) fn open(
        &mut self,
        client: Client,
        messages: Vec<Message>,
        limits: &Limits,
    ) -> Result<SessionId, Refusal> {
        self.admit(client.user, limits)?;
        Ok(self.add(Session::new(client, None, messages)))
    }

    /// Returns an error unless a user may have one more session.
    pub(crate) fn admit(&self, user: u32, limits: &Limits) -> Result<(), Refusal> {
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

    /// Opens a session of a connection that begins with the past of another.
    pub(crate) fn branch(
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
            prefills_ahead: false,
            uses: 0,
            ended: other.ended.clone(),
            trail: other.trail.clone(),
        };
        Ok(self.add(branch))
    }

    pub(crate) fn add(&mut self, mut session: Session) -> SessionId {
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

    /// Returns the lease of a session's holder.
    pub(crate) fn lease(&self, id: SessionId) -> Option<Lease> {
        let session = self.open.get(&id)?;
        Some(Lease::new(id, session.lease))
    }

    /// Gives a named session to a connection, which ends the lease before. Returns the new lease, and the ended one with its
    /// holder, if there was one.
    pub(crate) fn hand_over(
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

    /// Returns the sessions that count: those that cannot be evicted.
    fn counted(&self) -> impl Iterator<Item = &Session> {
        let is_evictable =
            |session: &&Session| session.named.as_ref().is_some_and(Named::is_evictable);
        self.open
            .values()
            .filter(move |session| !is_evictable(session))
    }

    pub(crate) fn len(&self) -> usize {
        self.counted().count()
    }

    /// Closes a session. Returns its request, which must be cancelled, if it has one.
    pub(crate) fn close(&mut self, id: SessionId) -> Result<Option<u64>, Refusal> {
        let session = self.open.remove(&id).ok_or(Refusal::SessionClosed)?;
        Ok(session.turn)
    }

    pub(crate) fn status(&self, id: SessionId) -> Option<SessionStatus> {
        let session = self.open.get(&id)?;
        Some(SessionStatus {
            turns: session.turns(),
            context_used: session.context_used(),
            busy: session.turn.is_some() && !session.prefills_ahead,
        })
    }

    pub(crate) fn history(&self, id: SessionId) -> Option<History> {
        let session = self.open.get(&id)?;
        // Each turn ends with its answer.
        let turns = session.ended.iter().zip(session.starts().skip(1));
        let answers = turns.filter(|(turn, _)| turn.partial);
        Some(History {
            messages: Arc::clone(&session.messages),
            partial: answers.filter_map(|(_, end)| end.checked_sub(1)).collect(),
        })
    }

    /// Makes a session busy with a turn until `end_turn`.
    pub(crate) fn begin_turn(&mut self, lease: Lease, ticket: u64) -> Result<Past, Refusal> {
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

    /// Begins a prefill ahead.
    pub(crate) fn begin_prefill(&mut self, lease: Lease, ticket: u64) -> Result<Past, Refusal> {
        let past = self.begin_turn(lease, ticket)?;
        if let Some(session) = self.open.get_mut(&lease.session) {
            session.prefills_ahead = true;
        }
        Ok(past)
    }

    /// Begins a prefill ahead, unless the session was used more than `uses` times, or has no holder.
    pub(crate) fn begin_idle_prefill(
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
    pub(crate) fn count_use(&mut self, id: SessionId) {
        if let Some(session) = self.open.get_mut(&id) {
            session.uses += 1;
        }
    }

    /// Returns how many calls have used a session.
    pub(crate) fn uses(&self, id: SessionId) -> Option<u64> {
        self.open.get(&id).map(|session| session.uses)
    }

    /// Returns the request of a session's turn.
    pub(crate) fn turn(&self, id: SessionId) -> Option<u64> {
        self.open.get(&id)?.turn
    }

    /// Returns the newest turn of a session, unless it was used more than `uses` times.
    pub(crate) fn last(&self, id: SessionId, uses: u64) -> Option<Last> {
        let session = self.open.get(&id)?;
        session.last().filter(|_| session.uses == uses)
    }

    /// Returns the prefills ahead.
    pub(crate) fn prefills(&self) -> Vec<u64> {
        let prefills = self.open.values().filter(|session| session.prefills_ahead);
        prefills.filter_map(|session| session.turn).collect()
    }

    /// Whether a session is prefilling ahead.
    pub(crate) fn prefills_ahead(&self, id: SessionId) -> bool {
        self.open
            .get(&id)
            .is_some_and(|session| session.prefills_ahead)
    }

    /// Returns the entry of a turn for a session's file, and that file; `None` if it has none.
    pub(crate) fn entry(&self, id: SessionId, answered: &Answered) -> Option<(SessionFile, Entry)> {
        let session = self.open.get(&id)?;
        Some((session.file()?.clone(), session.entry(answered)))
    }

    /// Ends a turn. With an answer, the conversation grows by the turn. The session may have been closed meanwhile.
    pub(crate) fn end_turn(&mut self, id: SessionId, answered: Option<Answered>) {
        self.ended.notify_waiters();
        let Some(session) = self.open.get_mut(&id) else {
            return;
        };
        session.turn = None;
        session.prefills_ahead = false;
        if let Some(answered) = answered {
            session.grow(answered);
        }
    }

    /// Returns the bytes that messages would take in the file of a session.
    pub(crate) fn stored_bytes(&self, id: SessionId, messages: &[Message]) -> usize {
        let keeps = self.open.get(&id).is_some_and(Session::keeps_pictures);
        let bytes = if keeps {
            Message::stored_bytes
        } else {
            Message::bytes
        };
        messages.iter().map(bytes).sum()
    }

    /// Returns the file of a session, if it has one.
    pub(crate) fn file(&self, id: SessionId) -> Option<SessionFile> {
        self.open.get(&id)?.file().cloned()
    }

    /// Returns the session of a lease, if it is not busy.
    pub(crate) fn idle(&mut self, lease: Lease) -> Result<&mut Session, Refusal> {
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
    /// Returns the messages, oldest first.
    pub(crate) fn said(&self) -> Vec<Said> {
        let said = |(at, message): (usize, &Message)| Said {
            message: message.clone(),
            partial: self.partial.binary_search(&at).is_ok(),
            dropped: false,
        };
        self.messages.iter().enumerate().map(said).collect()
    }
}
