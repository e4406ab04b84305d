//! Accounts of connections: their pending calls, and the messages to them that the bus may still hold.
//!
//! dbus-daemon stops reading from a sender of 64 unread descriptors or 127 MiB of unread messages, without a word. One client
//! that does not read would therefore stop the daemon for all. Pending calls are bounded before their bodies are kept, and
//! answers while the bus holds earlier ones: for each connection, for each user, and for all together. The accounts only
//! count; `stalled_readers` queries the bus.

mod descriptor_answers;
mod ledger;
mod limits;
mod pace;
mod returned;
mod room;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::journal;
use descriptor_answers::DescriptorAnswers;
pub(in crate::bus) use descriptor_answers::ReturnedAnswer;
use ledger::{Account, Ledger, PendingCall};
pub(in crate::bus) use limits::Load;
use limits::{
    ALWAYS_ALLOWED, CALLS, DESCRIPTOR, DESCRIPTORS, OBJECTS, OBJECTS_OF_USER, UNCERTAIN,
    UNCONFIRMED_SHARES, UNREAD, WORK,
};
use pace::Pace;
pub(in crate::bus) use room::SignalFlow;

/// The bus itself, as a sender.
pub(in crate::bus) const BUS: &str = "org.freedesktop.DBus";

/// Bytes of one call: the longest text, in as many messages as are allowed.
pub(in crate::bus) const LONGEST_CALL: usize = 3 << 20;
/// The least time between two events about messages that cannot be parsed.
const REPORT_PAUSE: Duration = Duration::from_secs(60);

/// The facts about a call that its header holds.
#[derive(Clone, Copy, Debug)]
pub(in crate::bus) struct Call {
    pub(in crate::bus) serial: u32,
    pub(in crate::bus) bytes: usize,
    /// Descriptors that were sent with it.
    pub(in crate::bus) descriptors: usize,
    /// Whether the caller expects an answer.
    pub(in crate::bus) answered: bool,
    /// Whether the answer lists all objects, and is as long as that.
    pub(in crate::bus) lists_objects: bool,
}

/// What happens to a call.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::bus) enum Admission {
    Admitted,
    /// It is answered with this reason.
    Refused(String),
    /// It gets no answer: its connection does not read earlier ones.
    Dropped,
}

/// The accounts of the clients of one connection to the bus.
#[derive(Debug)]
pub(in crate::bus) struct Accounts {
    ledger: Mutex<Ledger>,
    pace: Mutex<Pace>,
    /// Notified when a connection has read messages.
    freed: Notify,
    /// Notified when a call has ended.
    ended: Notify,
    /// Connections about whose unread messages the bus must be queried.
    uncertain: mpsc::UnboundedSender<String>,
    /// Connections about whose user the bus must be queried.
    newcomers: mpsc::UnboundedSender<String>,
    /// The daemon's own unique name.
    own: OnceLock<String>,
    descriptor_answers: DescriptorAnswers,
}

/// How a connection reads, by the latest report of the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bus) enum ReadState {
    /// It has little unread, or has left.
    Done,
    /// It has read some messages since the previous report.
    Reading,
    /// It has read nothing since the previous report.
    Stalled { unread: Load, dropped: u64 },
}

/// Names of connections about which the bus must be queried.
#[derive(Debug)]
pub(in crate::bus) struct Queries {
    /// How much they have unread.
    pub(in crate::bus) unread: mpsc::UnboundedReceiver<String>,
    /// Which user they are: of each connection at its first call.
    pub(in crate::bus) users: mpsc::UnboundedReceiver<String>,
}

impl Accounts {
    /// Returns empty accounts, and the queries to the bus that they need.
    pub(in crate::bus) fn new() -> (Arc<Self>, Queries) {
        let (uncertain, unread) = mpsc::unbounded_channel();
        let (newcomers, users) = mpsc::unbounded_channel();
        let accounts = Self {
            ledger: Mutex::default(),
            pace: Mutex::default(),
            freed: Notify::new(),
            ended: Notify::new(),
            uncertain,
            newcomers,
            own: OnceLock::new(),
            descriptor_answers: DescriptorAnswers::default(),
        };
        (Arc::new(accounts), Queries { unread, users })
    }

    pub(in crate::bus) fn set_own(&self, name: &str) {
        let _ = self.own.set(name.to_owned());
    }

    pub(in crate::bus) fn is_own(&self, name: &str) -> bool {
        self.own.get().is_some_and(|own| own == name)
    }

    /// Counts a message that could not be parsed. The first is reported at once, later ones at most once a minute.
    pub(in crate::bus) fn count_unparsable(&self) {
        let mut ledger = self.ledger();
        ledger.unparsable += 1;
        let now = Instant::now();
        if ledger.reported.is_none_or(|at| now - at >= REPORT_PAUSE) {
            ledger.reported = Some(now);
            journal::messages_unreadable(ledger.unparsable);
        }
    }

    /// Admits a call whose header has arrived, before its body is read.
    pub(in crate::bus) fn begin(&self, sender: &str, call: Call) -> Admission {
        let mut ledger = self.ledger();
        let (all, user) = (ledger.all, ledger.user_of(sender));
        let reserved = Load {
            bytes: if call.lists_objects {
                ledger.objects.max(OBJECTS)
            } else {
                0
            },
            descriptors: 0,
        };
        if !ledger.accounts.contains_key(sender) {
            // The receiver ends when the bus is lost.
            let _ = self.newcomers.send(sender.to_owned());
        }
        let account = ledger.account(sender);
        let held = account.held();
        // Descriptors do not count here: answers with one wait until there is room. Messages since the latest query may have
        // been read: a caller that repeats calls and reads the answers must not lose one.
        let full = account.confirmed.bytes > UNREAD.connection.bytes
            || held.bytes > UNCONFIRMED_SHARES * UNREAD.connection.bytes
            || user.held.bytes > UNREAD.user.bytes
            || all.held.bytes > UNREAD.all.bytes;
        if full && held.bytes > UNCERTAIN.bytes {
            account.dropped += 1;
            return Admission::Dropped;
        }
        // The answers to two pending calls with one serial could not be distinguished.
        if account.calls.contains_key(&call.serial) || account.calls.len() >= 2 * CALLS {
            account.dropped += 1;
            return Admission::Dropped;
        }
        let cost = call.bytes + call.descriptors * DESCRIPTOR;
        let work = account.work + cost;
        let refused = if call.bytes > LONGEST_CALL {
            let bytes = call.bytes;
            Some(format!(
                "the call has {bytes} bytes; at most {LONGEST_CALL} are taken in one"
            ))
        } else if call.descriptors > DESCRIPTORS {
            let descriptors = call.descriptors;
            Some(format!(
                "the call has {descriptors} descriptors; at most {DESCRIPTORS} are taken in one"
            ))
        } else if account.calls.len() >= CALLS
            || work > WORK.connection
            || (work > ALWAYS_ALLOWED
                && (user.work + cost > WORK.user || all.work + cost > WORK.all))
        {
            Some(
                "too many calls of this connection, of its user or of all are pending; read answers before calling again"
                    .to_owned(),
            )
        } else if user.held.lacks(reserved, OBJECTS_OF_USER) || all.held.lacks(reserved, UNREAD.all)
        {
            let why = "too many answers of this user or of all are unread; read them before listing objects";
            Some(why.to_owned())
        } else {
            None
        };
        if (refused.is_some() || call.lists_objects) && !call.answered {
            account.dropped += 1;
            return Admission::Dropped;
        }
        let (bytes, reserved) = match refused {
            Some(_) => (0, Load::default()),
            None => (cost, reserved),
        };
        let pending = PendingCall {
            bytes,
            silent: !call.answered,
            reserved,
            lists_objects: call.lists_objects,
        };
        ledger.change(sender, |account| {
            account.work += pending.bytes;
            account.reserved = account.reserved.plus(pending.reserved);
            account.calls.insert(call.serial, pending);
        });
        refused.map_or(Admission::Admitted, Admission::Refused)
    }

    /// Removes a call that will not be answered.
    pub(in crate::bus) fn abandon(&self, sender: &str, serial: u32) {
        self.ledger().end(sender, serial);
        self.ended.notify_waiters();
    }

    /// Counts the answer to a call; `false` if its caller wants no answer.
    pub(in crate::bus) fn answer(&self, to: &str, serial: u32, load: Load) -> bool {
        let mut ledger = self.ledger();
        let call = ledger.end(to, serial).unwrap_or_default();
        let silent = call.silent;
        if call.lists_objects {
            // The introspection of one object alone is short, so the estimate falls slowly.
            ledger.objects = load.bytes.max(ledger.objects / 2);
        }
        if !silent {
            self.add(&mut ledger, to, load);
        }
        drop(ledger);
        self.ended.notify_waiters();
        // Less was sent than reserved: there is room again.
        if silent || call.reserved.exceeds(load) {
            self.freed.notify_waiters();
        }
        !silent
    }

    /// Returns when no call is pending.
    pub(in crate::bus) async fn answered(&self) {
        loop {
            let ended = self.ended.notified();
            if self
                .ledger()
                .accounts
                .values()
                .all(|account| account.calls.is_empty())
            {
                return;
            }
            ended.await;
        }
    }

    /// Counts a message that is not an answer.
    pub(in crate::bus) fn send(&self, to: &str, load: Load) {
        self.add(&mut self.ledger(), to, load);
    }

    fn add(&self, ledger: &mut Ledger, to: &str, load: Load) {
        ledger.change(to, |account| {
            account.unread = account.unread.plus(load);
            account.since_query = account.since_query.plus(load);
            account.queued = account.queued.plus(load);
        });
        let waiting = ledger.waiting > 0;
        if let Some(account) = ledger.accounts.get_mut(to)
            && (waiting || account.unread.exceeds(UNCERTAIN))
        {
            self.watch(to, account);
        }
    }

    fn watch(&self, name: &str, account: &mut Account) {
        if !std::mem::replace(&mut account.watched, true) {
            // The receiver ends when the bus is lost.
            let _ = self.uncertain.send(name.to_owned());
        }
    }

    /// Sets the user of a connection.
    pub(in crate::bus) fn set_user(&self, name: &str, user: u32) {
        let set = |account: &mut Account| account.user = Some(user);
        self.ledger().change(name, set);
    }

    /// Returns the user of a connection, if it is known.
    pub(in crate::bus) fn user(&self, name: &str) -> Option<u32> {
        self.ledger().accounts.get(name)?.user
    }

    /// Whether a connection has called, and not left.
    pub(in crate::bus) fn is_here(&self, name: &str) -> bool {
        self.ledger().accounts.contains_key(name)
    }

    /// Whether a call is pending.
    pub(in crate::bus) fn is_pending(&self, name: &str, serial: u32) -> bool {
        let ledger = self.ledger();
        let account = ledger.accounts.get(name);
        account.is_some_and(|account| account.calls.contains_key(&serial))
    }

    /// Notes that the answer to a call is an error: further calls of its user wait if too many have failed.
    pub(in crate::bus) fn failed(&self, name: &str, serial: u32) {
        let ledger = self.ledger();
        let Some(account) = ledger.accounts.get(name) else {
            return;
        };
        let bytes = account.calls.get(&serial).map_or(0, |call| call.bytes);
        if let Some(user) = account.user {
            self.pace.lock().failed(user, bytes, Instant::now());
        }
    }

    /// Returns the time until which calls of a user wait because too many have failed.
    pub(in crate::bus) fn waits_until(&self, user: u32, now: Instant) -> Option<Instant> {
        self.pace.lock().waits_until(user, now)
    }

    /// Waits if too many calls of a user have failed: once, so that the failures of others cannot postpone a call without end.
    pub(in crate::bus) async fn keep_pace(&self, user: u32) {
        if let Some(until) = self.waits_until(user, Instant::now()) {
            tokio::time::sleep_until(until).await;
        }
    }

    /// Counts a message to a connection that has been written to the bus.
    pub(in crate::bus) fn wrote(&self, name: &str, load: Load) {
        if let Some(account) = self.ledger().accounts.get_mut(name) {
            account.queued = account.queued.minus(load);
        }
    }

    /// Begins a query to the bus. Its answer does not count unwritten messages, and may not count those that are sent
    /// meanwhile.
    pub(in crate::bus) fn begin_query(&self, name: &str) {
        if let Some(account) = self.ledger().accounts.get_mut(name) {
            account.since_query = account.queued;
        }
    }

    /// Ends a query to the bus, which holds `left` for a connection.
    pub(in crate::bus) fn end_query(&self, name: &str, left: Load) -> ReadState {
        let mut ledger = self.ledger();
        let (mut state, mut reading) = (ReadState::Done, false);
        let waiting = ledger.waiting > 0;
        ledger.change(name, |account| {
            let before = account.unread.minus(account.since_query);
            account.confirmed = before.min(left);
            let unread = account.confirmed.plus(account.since_query);
            reading = account.unread.exceeds(unread);
            account.unread = unread;
            account.watched = unread.exceeds(UNCERTAIN) || (waiting && unread != Load::default());
            if account.watched {
                state = if reading {
                    ReadState::Reading
                } else {
                    let dropped = account.dropped;
                    ReadState::Stalled { unread, dropped }
                };
            }
        });
        drop(ledger);
        if reading {
            self.freed.notify_waiters();
        }
        state
    }

    /// Returns the names of all connections that have called.
    pub(in crate::bus) fn names(&self) -> Vec<String> {
        self.ledger().accounts.keys().cloned().collect()
    }

    /// Removes a connection that has left the bus. The bus has dropped its unread messages.
    pub(in crate::bus) fn leave(&self, name: &str) {
        let mut ledger = self.ledger();
        ledger.change(name, |account| {
            account.work = 0;
            account.unread = Load::default();
            account.confirmed = Load::default();
            account.reserved = Load::default();
        });
        ledger.accounts.remove(name);
        drop(ledger);
        self.ended.notify_waiters();
        self.freed.notify_waiters();
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock()
    }
}

#[cfg(test)]
mod tests;
