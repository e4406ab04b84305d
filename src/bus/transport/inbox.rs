//! What has been read and waits to be dealt with: what the bus says first, then the calls, in turn.
//!
//! Calls are handed in a few at a time, so that the next one of another user waits for few. One that takes its time, for
//! there is an answer to be made or room to be waited for, holds up nobody: it is young no more, and does not count.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use zbus::Message;

use super::turns::{Turns, Whose};
use crate::bus::accounts::Accounts;

/// How long a call that was handed in counts, unless it is answered before.
const YOUNG: Duration = Duration::from_millis(5);
/// Young calls of all, of one user, and of one connection.
const ALL: usize = 32;
const OF_USER: usize = 16;
const OF_CONNECTION: usize = 4;

/// A message that goes further.
#[derive(Debug)]
pub(super) enum Incoming {
    /// What the bus says, in bytes: zbus wants it numbered in the order in which it gets it.
    Told(Vec<u8>),
    Call(IncomingCall),
}

#[derive(Debug)]
pub(super) struct IncomingCall {
    pub(super) name: Arc<str>,
    pub(super) serial: u32,
    pub(super) message: Message,
}

/// A call that was handed in a moment ago, and is not answered.
#[derive(Debug)]
struct Young {
    whose: Whose,
    name: Arc<str>,
    serial: u32,
    until: Instant,
}

#[derive(Debug, Default)]
struct State {
    /// What the bus itself has told comes before all calls.
    told: VecDeque<Vec<u8>>,
    calls: Turns<IncomingCall>,
    /// The oldest is first.
    young: VecDeque<Young>,
    /// Nothing more will come.
    ended: Option<zbus::Error>,
}

/// What comes by one connection to the bus.
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
            Incoming::Told(bytes) => state.told.push_back(bytes),
            Incoming::Call(call) => {
                let (whose, name) = (self.whose(&call.name), call.name.clone());
                state.calls.push(whose, &name, call);
            }
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Why nothing more comes.
    pub(super) fn end(&self, why: zbus::Error) {
        let mut state = self.state.lock();
        state.ended = Some(why);
        state.calls = Turns::default();
        drop(state);
        self.changed.notify_one();
    }

    /// The next message, once there is one that may be dealt with.
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
        if let Some(told) = state.told.pop_front() {
            return Taken::One(Incoming::Told(told));
        }
        let State { calls, young, .. } = &mut *state;
        // The earliest time at which a user whose calls failed may go on.
        let paced = Cell::new(None::<Instant>);
        while young.front().is_some_and(|young| young.until <= now) {
            young.pop_front();
        }
        while young.len() < ALL {
            let waiting = calls.pop(|whose, name| {
                if let Whose::User(user) = whose
                    && let Some(until) = self.accounts.waits_until(user, now)
                {
                    let earliest = paced.get().map_or(until, |paced| until.min(paced));
                    paced.set(Some(earliest));
                    return false;
                }
                let of = |is: &dyn Fn(&Young) -> bool| young.iter().filter(|one| is(one)).count();
                of(&|one| one.whose == whose) < OF_USER
                    && of(&|one| *one.name == *name) < OF_CONNECTION
            });
            match waiting {
                None => break,
                Some(call) => {
                    // Its caller may have left meanwhile.
                    if !self.accounts.is_begun(&call.name, call.serial) {
                        continue;
                    }
                    young.push_back(Young {
                        whose: self.whose(&call.name),
                        name: call.name.clone(),
                        serial: call.serial,
                        until: now + YOUNG,
                    });
                    return Taken::One(Incoming::Call(call));
                }
            }
        }
        let oldest = young.front().map(|oldest| oldest.until);
        match oldest.into_iter().chain(paced.get()).min() {
            Some(until) if !calls.is_empty() => Taken::Until(until),
            _ => Taken::Nothing,
        }
    }

    /// A call is answered, or never will be.
    pub(super) fn settle(&self, name: &str, serial: u32) {
        let mut state = self.state.lock();
        let is = |one: &Young| one.serial == serial && *one.name == *name;
        if let Some(at) = state.young.iter().position(is) {
            state.young.remove(at);
            drop(state);
            self.changed.notify_one();
        }
    }

    fn whose(&self, name: &str) -> Whose {
        self.accounts.user(name).map_or(Whose::Unknown, Whose::User)
    }
}

#[derive(Debug)]
enum Taken {
    One(Incoming),
    Nothing,
    /// Until then nothing that waits may be handed in, unless a call is answered.
    Until(Instant),
    Ended(zbus::Error),
}
