//! The connections that own something, and what: their sessions and requests. A connection that leaves loses all of it at
//! once.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use zbus::message::Header;

use super::authorize::Caller;
use crate::engine::SessionId;

/// Finished requests of one connection that can still be asked for their result.
const FINISHED: usize = 16;

/// What one connection owns.
#[derive(Debug, Default)]
pub(super) struct Belongings {
    pub(super) sessions: HashSet<SessionId>,
    /// Each with the call that made it: a serial, of the caller's own counting.
    pub(super) running: HashMap<u64, u32>,
    /// Oldest first, with the time until which they are kept.
    pub(super) finished: VecDeque<(u64, Instant)>,
}

impl Belongings {
    fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.running.is_empty() && self.finished.is_empty()
    }
}

/// The belongings of all connections.
#[derive(Debug)]
pub(super) struct Registry {
    by_caller: Mutex<HashMap<Caller, Belongings>>,
    newcomers: UnboundedSender<Caller>,
}

impl Registry {
    /// And the connections that own something and have owned nothing before: the bus may have told that they left before
    /// they did.
    pub(super) fn new() -> (Self, UnboundedReceiver<Caller>) {
        let (newcomers, come) = mpsc::unbounded_channel();
        let new = Self {
            by_caller: Mutex::default(),
            newcomers,
        };
        (new, come)
    }

    pub(super) fn add_session(&self, caller: &Caller, session: SessionId) {
        self.add(caller, |belongings| {
            belongings.sessions.insert(session);
        });
    }

    /// A request, by the call that has made it.
    pub(super) fn add_request(&self, caller: &Caller, id: u64, call: &Header<'_>) {
        let call = call.primary().serial_num().get();
        self.add(caller, |belongings| {
            belongings.running.insert(id, call);
        });
    }

    /// The running request that a call has made.
    pub(super) fn asked_by(&self, caller: &Caller, call: u32) -> Option<u64> {
        let callers = self.by_caller.lock();
        let mut running = callers.get(caller)?.running.iter();
        running.find(|(_, of)| **of == call).map(|(id, _)| *id)
    }

    pub(super) fn remove_session(&self, caller: &Caller, session: SessionId) {
        self.change(caller, |belongings| belongings.sessions.remove(&session));
    }

    /// The request has no object: nobody can ask for it afterwards.
    pub(super) fn remove_request(&self, caller: &Caller, id: u64) {
        self.change(caller, |belongings| belongings.running.remove(&id));
    }

    /// Keeps a request as finished; gives back the one that must make room for it.
    pub(super) fn finish_request(&self, caller: &Caller, id: u64, until: Instant) -> Option<u64> {
        self.change(caller, |belongings| {
            belongings.running.remove(&id)?;
            belongings.finished.push_back((id, until));
            let full = belongings.finished.len() > FINISHED;
            full.then(|| belongings.finished.pop_front()).flatten()
        })
        .flatten()
        .map(|(oldest, _)| oldest)
    }

    /// Takes the finished requests that have been kept until `now`.
    pub(super) fn expire(&self, now: Instant) -> Vec<u64> {
        let mut expired = Vec::new();
        self.by_caller.lock().retain(|_, belongings| {
            let old = |(_, until): &&(u64, Instant)| *until <= now;
            let count = belongings.finished.iter().take_while(old).count();
            expired.extend(belongings.finished.drain(..count).map(|(id, _)| id));
            !belongings.is_empty()
        });
        expired
    }

    /// Takes everything from a connection that has left.
    pub(super) fn take(&self, caller: &Caller) -> Option<Belongings> {
        self.by_caller.lock().remove(caller)
    }

    /// Takes everything from everyone.
    pub(super) fn take_all(&self) -> impl Iterator<Item = (Caller, Belongings)> + use<> {
        std::mem::take(&mut *self.by_caller.lock()).into_iter()
    }

    /// A session is another connection's from now on.
    pub(super) fn lose_session(&self, session: SessionId) {
        for belongings in self.by_caller.lock().values_mut() {
            belongings.sessions.remove(&session);
        }
    }

    fn add(&self, caller: &Caller, change: impl FnOnce(&mut Belongings)) {
        let mut callers = self.by_caller.lock();
        if !callers.contains_key(caller) {
            // Where nobody listens the connection to the bus has ended, and everyone has left.
            let _ = self.newcomers.send(caller.clone());
        }
        change(callers.entry(caller.clone()).or_default());
    }

    fn change<T>(&self, caller: &Caller, change: impl FnOnce(&mut Belongings) -> T) -> Option<T> {
        let mut callers = self.by_caller.lock();
        let belongings = callers.get_mut(caller)?;
        let result = change(belongings);
        if belongings.is_empty() {
            callers.remove(caller);
        }
        Some(result)
    }
}
