//! The sessions and requests of each connection. A connection that leaves loses all of them at once.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use zbus::message::Header;

use super::owner::{Caller, ObjectOwner};
use crate::engine::Lease;

/// Finished requests of one connection, and of one user, that still have an object. Introspection lists all of them.
const FINISHED: usize = 16;
const FINISHED_OF_USER: usize = 64;

/// The sessions and requests of one connection.
#[derive(Debug, Default)]
pub(super) struct Belongings {
    user: u32,
    /// By the number of the lease.
    pub(super) sessions: HashMap<u64, Lease>,
    pub(super) running: HashMap<u64, Made>,
    /// Oldest first, each with the time when it expires.
    pub(super) finished: VecDeque<(u64, Instant)>,
}

/// How a request was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Made {
    /// The serial of the call that made it.
    call: u32,
    /// Whether it has an object.
    object: bool,
}

/// A kind of object of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectKind {
    Session,
    Request,
}

impl ObjectKind {
    pub(super) const ALL: [Self; 2] = [Self::Session, Self::Request];

    /// Returns the name of the node above the objects of this kind.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Request => "request",
        }
    }
}

impl Belongings {
    /// Returns the numbers of the objects of a kind.
    fn objects(&self, kind: ObjectKind) -> Vec<u64> {
        let running = self.running.iter().filter(|(_, made)| made.object);
        let finished = self.finished.iter().map(|(id, _)| *id);
        match kind {
            ObjectKind::Session => self.sessions.keys().copied().collect(),
            ObjectKind::Request => running.map(|(id, _)| *id).chain(finished).collect(),
        }
    }

    fn has(&self, kind: ObjectKind, number: u64) -> bool {
        match kind {
            ObjectKind::Session => self.sessions.contains_key(&number),
            ObjectKind::Request => {
                self.running.get(&number).is_some_and(|made| made.object)
                    || self.finished.iter().any(|(id, _)| *id == number)
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.running.is_empty() && self.finished.is_empty()
    }
}

/// The connections that own something.
#[derive(Debug, Default)]
struct Callers {
    by_name: HashMap<Caller, Belongings>,
    /// Whether the bus is lost.
    lost: bool,
}

/// The sessions and requests of all connections.
#[derive(Debug)]
pub(super) struct Registry {
    callers: Mutex<Callers>,
    newcomers: UnboundedSender<Caller>,
}

impl Registry {
    /// Returns an empty registry, and the connections that become owners: the bus may have reported their departure before
    /// that.
    pub(super) fn new() -> (Self, UnboundedReceiver<Caller>) {
        let (newcomers, arrivals) = mpsc::unbounded_channel();
        let new = Self {
            callers: Mutex::default(),
            newcomers,
        };
        (new, arrivals)
    }

    /// Adds a session. Returns `false`, and adds nothing, if the bus is lost.
    pub(super) fn add_session(&self, owner: &ObjectOwner, lease: Lease) -> bool {
        self.add(owner, |belongings| {
            belongings.sessions.insert(lease.number(), lease);
        })
    }

    /// Adds a request with an object, which `call` has made.
    pub(super) fn add_request(&self, owner: &ObjectOwner, id: u64, call: &Header<'_>) -> bool {
        self.add_made(owner, id, call, true)
    }

    /// Adds a request without an object; its call waits for the answer.
    pub(super) fn add_awaited(&self, owner: &ObjectOwner, id: u64, call: &Header<'_>) -> bool {
        self.add_made(owner, id, call, false)
    }

    fn add_made(&self, owner: &ObjectOwner, id: u64, call: &Header<'_>, object: bool) -> bool {
        let call = call.primary().serial_num().get();
        self.add(owner, |belongings| {
            belongings.running.insert(id, Made { call, object });
        })
    }

    /// Whether a connection has this object.
    pub(super) fn has(&self, caller: &Caller, kind: ObjectKind, number: u64) -> bool {
        let callers = self.callers.lock();
        let belongings = callers.by_name.get(caller);
        belongings.is_some_and(|belongings| belongings.has(kind, number))
    }

    /// Returns the numbers of the objects of a kind that a connection has.
    pub(super) fn objects(&self, caller: &Caller, kind: ObjectKind) -> Vec<u64> {
        let callers = self.callers.lock();
        let belongings = callers.by_name.get(caller);
        belongings.map_or_else(Vec::new, |belongings| belongings.objects(kind))
    }

    /// Returns the running request that a call has made.
    pub(super) fn request_of_call(&self, caller: &Caller, call: u32) -> Option<u64> {
        let callers = self.callers.lock();
        let mut running = callers.by_name.get(caller)?.running.iter();
        running.find(|(_, of)| of.call == call).map(|(id, _)| *id)
    }

    pub(super) fn remove_session(&self, caller: &Caller, lease: Lease) {
        self.change(caller, |belongings| {
            belongings.sessions.remove(&lease.number());
        });
    }

    /// Removes a request without an object.
    pub(super) fn remove_request(&self, caller: &Caller, id: u64) {
        self.change(caller, |belongings| belongings.running.remove(&id));
    }

    /// Marks a request as finished; returns the oldest finished request if there are too many.
    pub(super) fn finish_request(
        &self,
        owner: &ObjectOwner,
        id: u64,
        until: Instant,
    ) -> Option<u64> {
        let Callers { by_name, .. } = &mut *self.callers.lock();
        let belongings = by_name.get_mut(&owner.caller)?;
        belongings.running.remove(&id)?;
        belongings.finished.push_back((id, until));
        let mut full = belongings.finished.len() > FINISHED;
        let mut from = owner.caller.clone();
        if !full {
            let of_user = |(_, one): &(&Caller, &Belongings)| one.user == owner.client.user;
            let connections = || by_name.iter().filter(of_user);
            full = connections()
                .map(|(_, one)| one.finished.len())
                .sum::<usize>()
                > FINISHED_OF_USER;
            let oldest =
                connections().filter_map(|(name, one)| Some((one.finished.front()?.1, name)));
            if let Some((_, name)) = oldest.min_by_key(|(until, _)| *until) {
                from = name.clone();
            }
        }
        let oldest = full.then(|| by_name.get_mut(&from)?.finished.pop_front());
        by_name.retain(|_, belongings| !belongings.is_empty());
        oldest.flatten().map(|(oldest, _)| oldest)
    }

    /// Removes the finished requests that expire before or at `now`, and returns them.
    pub(super) fn expire(&self, now: Instant) -> Vec<u64> {
        let mut expired = Vec::new();
        self.callers.lock().by_name.retain(|_, belongings| {
            let old = |(_, until): &&(u64, Instant)| *until <= now;
            let count = belongings.finished.iter().take_while(old).count();
            expired.extend(belongings.finished.drain(..count).map(|(id, _)| id));
            !belongings.is_empty()
        });
        expired
    }

    /// Removes everything of a connection that has left, and returns it.
    pub(super) fn take(&self, caller: &Caller) -> Option<Belongings> {
        self.callers.lock().by_name.remove(caller)
    }

    /// Removes everything of all connections, because the bus is lost. Later additions fail.
    pub(super) fn take_all(&self) -> impl Iterator<Item = (Caller, Belongings)> + use<> {
        let mut callers = self.callers.lock();
        callers.lost = true;
        std::mem::take(&mut callers.by_name).into_iter()
    }

    /// Removes a session whose lease has ended because another connection has taken the session.
    pub(super) fn lose_session(&self, lease: Lease) {
        self.callers.lock().by_name.retain(|_, belongings| {
            belongings.sessions.remove(&lease.number());
            !belongings.is_empty()
        });
    }

    fn add(&self, owner: &ObjectOwner, change: impl FnOnce(&mut Belongings)) -> bool {
        let Callers { by_name, lost } = &mut *self.callers.lock();
        let ObjectOwner { caller, client } = owner;
        // The channel is closed when the connection to the bus has ended.
        if *lost || (!by_name.contains_key(caller) && self.newcomers.send(caller.clone()).is_err())
        {
            return false;
        }
        let belongings = by_name.entry(caller.clone()).or_default();
        belongings.user = client.user;
        change(belongings);
        true
    }

    fn change<T>(&self, caller: &Caller, change: impl FnOnce(&mut Belongings) -> T) -> Option<T> {
        let Callers { by_name, .. } = &mut *self.callers.lock();
        let belongings = by_name.get_mut(caller)?;
        let result = change(belongings);
        if belongings.is_empty() {
            by_name.remove(caller);
        }
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use zbus::Message;

    use super::*;
    use crate::engine::SessionId;

    fn owner(connection: u32, user: u32) -> ObjectOwner {
        let name = format!(":1.{connection}");
        ObjectOwner::new(Caller::new(name.try_into().unwrap()), user)
    }

    #[test]
    fn finished_requests_of_a_user_are_bounded_over_all_its_connections() {
        let (registry, _arrivals) = Registry::new();
        let call = Message::method_call("/", "Submit").build(&()).unwrap();
        let begun = Instant::now();
        let mut removed = Vec::new();
        for number in 0..100 {
            // Ten connections of one user, and one of another user, which loses nothing.
            let owner = match number {
                0 => owner(99, 2),
                number => owner(number % 10, 1),
            };
            let (id, until) = (number.into(), Duration::from_secs(number.into()));
            assert!(registry.add_request(&owner, id, &call.header()));
            removed.extend(registry.finish_request(&owner, id, begun + until));
        }
        assert!(removed.into_iter().eq(1..100 - FINISHED_OF_USER as u64));
    }

    #[test]
    fn a_lost_bus_has_no_owners() {
        let (registry, arrivals) = Registry::new();
        let one = owner(1, 1);
        assert!(registry.add_session(&one, SessionId(1).into()));
        assert_eq!(registry.take_all().count(), 1);
        assert!(
            !registry.add_session(&one, SessionId(2).into()),
            "while the channel is open, too"
        );
        drop(arrivals);
        assert!(!registry.add_session(&owner(2, 1), SessionId(3).into()));
        assert_eq!(registry.take_all().count(), 0);
    }
}
