//! Messages that have been read and not yet handled: messages of the bus first, then the calls, in turn.
//!
//! Few calls are handed on at once, so that the next call of another user waits for few. A call that takes long, because it
//! computes or waits for room, delays no other: after a moment it does not count as recent.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use zbus::Message;

use super::fair_queue::{FairQueue, Party};
use crate::bus::accounts::Accounts;

/// How long a call that was handed on counts as recent, unless it is answered before.
const RECENT: Duration = Duration::from_millis(5);
/// Recent calls of all, of one user, and of one connection.
const ALL: usize = 32;
const OF_USER: usize = 16;
const OF_CONNECTION: usize = 4;

/// A message to handle.
#[derive(Debug)]
pub(super) enum Incoming {
    /// The bytes of a message of the bus: zbus numbers messages in the order in which it receives them.
    OfBus(Vec<u8>),
    Call(IncomingCall),
}

#[derive(Debug)]
pub(super) struct IncomingCall {
    pub(super) name: Arc<str>,
    pub(super) serial: u32,
    pub(super) message: Message,
}

/// A call that was handed on a moment ago, and is not answered.
#[derive(Debug)]
struct RecentCall {
    party: Party,
    name: Arc<str>,
    serial: u32,
    until: Instant,
}

#[derive(Debug, Default)]
struct State {
    /// Messages of the bus itself; they come before all calls.
    of_bus: VecDeque<Vec<u8>>,
    calls: FairQueue<IncomingCall>,
    /// The oldest is first.
    recent: VecDeque<RecentCall>,
    /// Why no more messages will arrive.
    ended: Option<zbus::Error>,
}

/// The messages from one connection to the bus.
#[derive(Debug)]
pub(super) struct Inbox {
    state: Mutex<State>,
    changed: Notify,
    accounts: Arc<Accounts>,
}

impl Inbox {
    pub(super) fn new(accounts: Arc<Accounts>) -> Self {
        Self {
            state: Mutex::default(),
            changed: Notify::new(),
            accounts,
        }
    }

    pub(super) fn push(&self, incoming: Incoming) {
        let mut state = self.state.lock();
        match incoming {
            Incoming::OfBus(bytes) => state.of_bus.push_back(bytes),
            Incoming::Call(call) => {
                let (party, name) = (self.party(&call.name), call.name.clone());
                state.calls.push(party, &name, call);
            }
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Ends the inbox: no more messages will arrive.
    pub(super) fn end(&self, why: zbus::Error) {
        let mut state = self.state.lock();
        state.ended = Some(why);
        state.calls = FairQueue::default();
        drop(state);
        self.changed.notify_one();
    }

    /// Returns the next message, once there is one that may be handled.
    pub(super) async fn next(&self) -> zbus::Result<Incoming> {
        loop {
            let changed = self.changed.notified();
            match self.take(Instant::now()) {
                Taken::One(incoming) => return Ok(incoming),
                Taken::Ended(why) => return Err(why),
                Taken::Nothing => changed.await,
                Taken::Until(time) => {
                    let _ = timeout_at(time, changed).await;
                }
            }
        }
    }

    fn take(&self, now: Instant) -> Taken {
        let mut state = self.state.lock();
        if let Some(why) = &state.ended {
            return Taken::Ended(why.clone());
        }
        if let Some(bytes) = state.of_bus.pop_front() {
            return Taken::One(Incoming::OfBus(bytes));
        }
        let State { calls, recent, .. } = &mut *state;
        // The earliest time at which a user whose calls failed may go on.
        let paced = Cell::new(None::<Instant>);
        while recent.front().is_some_and(|call| call.until <= now) {
            recent.pop_front();
        }
        while recent.len() < ALL {
            let waiting = calls.pop(|party, name| {
                if let Party::User(user) = party
                    && let Some(until) = self.accounts.waits_until(user, now)
                {
                    let earliest = paced.get().map_or(until, |paced| until.min(paced));
                    paced.set(Some(earliest));
                    return false;
                }
                let of =
                    |is: &dyn Fn(&RecentCall) -> bool| recent.iter().filter(|one| is(one)).count();
                of(&|one| one.party == party) < OF_USER
                    && of(&|one| *one.name == *name) < OF_CONNECTION
            });
            match waiting {
                None => break,
                Some(call) => {
                    // Its caller may have left meanwhile.
                    if !self.accounts.is_pending(&call.name, call.serial) {
                        continue;
                    }
                    recent.push_back(RecentCall {
                        party: self.party(&call.name),
                        name: call.name.clone(),
                        serial: call.serial,
                        until: now + RECENT,
                    });
                    return Taken::One(Incoming::Call(call));
                }
            }
        }
        let oldest = recent.front().map(|oldest| oldest.until);
        match oldest.into_iter().chain(paced.get()).min() {
            Some(until) if !calls.is_empty() => Taken::Until(until),
            _ => Taken::Nothing,
        }
    }

    /// Removes a call that is answered, or never will be, from the recent calls.
    pub(super) fn settle(&self, name: &str, serial: u32) {
        let mut state = self.state.lock();
        let is = |one: &RecentCall| one.serial == serial && *one.name == *name;
        if let Some(at) = state.recent.iter().position(is) {
            state.recent.remove(at);
            drop(state);
            self.changed.notify_one();
        }
    }

    fn party(&self, name: &str) -> Party {
        self.accounts.user(name).map_or(Party::Unknown, Party::User)
    }
}

#[derive(Debug)]
enum Taken {
    One(Incoming),
    Nothing,
    /// No queued call may be handled until then, unless a call is answered.
    Until(Instant),
    Ended(zbus::Error),
}
