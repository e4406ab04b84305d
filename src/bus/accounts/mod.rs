//! What each connection has given the daemon to do, and what it was sent and has not taken from the bus.
//!
//! dbus-daemon reads nothing more from a sender of whose messages 64 descriptors or 127 MiB lie unread, and says nothing
//! of it: one client that does not read would stop the daemon for all. So calls that are being dealt with are bounded
//! before their bodies are kept, and answers while the bus still holds earlier ones: for each connection, for each user,
//! and together. How much the bus holds is asked of it by `unread`; here is only counted.

mod books;
mod limits;
mod pace;
mod passed;
mod room;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::journal;
use books::{Account, Begun, Books};
pub(in crate::bus) use limits::Load;
use limits::{CALLS, LITTLE, OBJECTS, OBJECTS_OF_USER, UNCERTAIN, UNREAD, UNTOLD, WORK};
use pace::Pace;
use passed::Passed;
pub(in crate::bus) use passed::Undelivered;
pub(in crate::bus) use room::Taking;

/// The bus itself, as a sender.
pub(in crate::bus) const BUS: &str = "org.freedesktop.DBus";

/// Bytes of one call: a text as long as one may be, in as many messages as there may be.
pub(in crate::bus) const LONGEST_CALL: usize = 3 << 20;
/// The least time between two events about unreadable messages.
const TOLD: Duration = Duration::from_secs(60);

/// A call, as its header tells it.
#[derive(Clone, Copy, Debug)]
pub(in crate::bus) struct Call {
    /// The caller counts its calls by it.
    pub(in crate::bus) serial: u32,
    pub(in crate::bus) bytes: usize,
    /// Whether the caller expects an answer.
    pub(in crate::bus) answered: bool,
    /// Whether the answer tells of all objects that there are, and takes as much.
    pub(in crate::bus) of_objects: bool,
}

/// What becomes of a call.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::bus) enum Admission {
    Taken,
    /// Its answer says why.
    Refused(String),
    /// It gets no answer: its connection does not read those it has.
    Dropped,
}

/// The accounts of one connection to the bus.
#[derive(Debug)]
pub(in crate::bus) struct Accounts {
    books: Mutex<Books>,
    pace: Mutex<Pace>,
    /// Something was taken.
    freed: Notify,
    /// A call has ended.
    ended: Notify,
    /// The bus is to be asked what of these is unread.
    uncertain: mpsc::UnboundedSender<String>,
    /// The bus is to be asked whose these are.
    newcomers: mpsc::UnboundedSender<String>,
    /// The daemon's own unique name.
    own: OnceLock<String>,
    /// Answers that the bus may still send back.
    passed: Passed,
}

/// What the bus said of a connection comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bus) enum Standing {
    /// There is little that it has not taken, or it has left.
    Settled,
    /// It has taken some.
    Taking,
    /// It has taken nothing, and has this much to take.
    Still { unread: Load, dropped: u64 },
}

/// Names of those of whom the bus is to be asked.
#[derive(Debug)]
pub(in crate::bus) struct Questions {
    /// What lies unread.
    pub(in crate::bus) unread: mpsc::UnboundedReceiver<String>,
    /// Whose they are: each that called for the first time.
    pub(in crate::bus) whose: mpsc::UnboundedReceiver<String>,
}

impl Accounts {
    /// Also gives what the bus is to be asked.
    pub(in crate::bus) fn new() -> (Arc<Self>, Questions) {
        let (uncertain, unread) = mpsc::unbounded_channel();
        let (newcomers, whose) = mpsc::unbounded_channel();
        let accounts = Self {
            books: Mutex::default(),
            pace: Mutex::default(),
            freed: Notify::new(),
            ended: Notify::new(),
            uncertain,
            newcomers,
            own: OnceLock::new(),
            passed: Passed::default(),
        };
        (Arc::new(accounts), Questions { unread, whose })
    }

    pub(in crate::bus) fn set_own(&self, name: &str) {
        let _ = self.own.set(name.to_owned());
    }

    pub(in crate::bus) fn is_own(&self, name: &str) -> bool {
        self.own.get().is_some_and(|own| own == name)
    }

    /// A message could not be read. Told at once, then at most once a minute.
    pub(in crate::bus) fn count_unreadable(&self) {
        let mut books = self.books();
        books.unreadable += 1;
        let now = Instant::now();
        if books.told.is_none_or(|told| now - told >= TOLD) {
            books.told = Some(now);
            journal::messages_unreadable(books.unreadable);
        }
    }

    /// A call has come; its body has not.
    pub(in crate::bus) fn begin(&self, sender: &str, call: Call) -> Admission {
        let mut books = self.books();
        let (all, user) = (books.all, books.user_of(sender));
        let promised = Load {
            bytes: if call.of_objects {
                books.objects.max(OBJECTS)
            } else {
                0
            },
            descriptors: 0,
        };
        if !books.accounts.contains_key(sender) {
            // If nobody asks any more, the connection is being lost.
            let _ = self.newcomers.send(sender.to_owned());
        }
        let account = books.account(sender);
        let held = account.held();
        // Descriptors are not looked at: answers with one wait until there is room. What was sent since the bus was asked
        // may have been read: who calls again and again, and reads, is not to lose an answer by that.
        let full = account.confirmed.bytes > UNREAD.connection.bytes
            || held.bytes > UNTOLD * UNREAD.connection.bytes
            || user.held.bytes > UNREAD.user.bytes
            || all.held.bytes > UNREAD.all.bytes;
        if full && held.bytes > UNCERTAIN.bytes {
            account.dropped += 1;
            return Admission::Dropped;
        }
        // A serial that is in use already cannot be told from the other by its answer.
        if account.calls.contains_key(&call.serial) || account.calls.len() >= 2 * CALLS {
            account.dropped += 1;
            return Admission::Dropped;
        }
        let work = account.work + call.bytes;
        let refused = if call.bytes > LONGEST_CALL {
            let bytes = call.bytes;
            Some(format!(
                "the call has {bytes} bytes; at most {LONGEST_CALL} are taken in one"
            ))
        } else if account.calls.len() >= CALLS
            || work > WORK.connection
            || (work > LITTLE
                && (user.work + call.bytes > WORK.user || all.work + call.bytes > WORK.all))
        {
            Some(
                "too many calls of this connection, of its user or of all wait for an answer; \
                 read answers before calling again"
                    .to_owned(),
            )
        } else if user.held.lacks(promised, OBJECTS_OF_USER) || all.held.lacks(promised, UNREAD.all)
        {
            let why = "too many answers of this user or of all wait to be read; read them before asking what there is";
            Some(why.to_owned())
        } else {
            None
        };
        if (refused.is_some() || call.of_objects) && !call.answered {
            account.dropped += 1;
            return Admission::Dropped;
        }
        let (bytes, promised) = match refused {
            Some(_) => (0, Load::default()),
            None => (call.bytes, promised),
        };
        let begun = Begun {
            bytes,
            silent: !call.answered,
            promised,
            of_objects: call.of_objects,
        };
        books.change(sender, |account| {
            account.work += begun.bytes;
            account.promised = account.promised.plus(begun.promised);
            account.calls.insert(call.serial, begun);
        });
        refused.map_or(Admission::Taken, Admission::Refused)
    }

    /// A call will have no answer after all.
    pub(in crate::bus) fn forgo(&self, sender: &str, serial: u32) {
        self.books().end(sender, serial);
        self.ended.notify_waiters();
    }

    /// A call is answered; `false` if its caller wants no answer.
    pub(in crate::bus) fn answer(&self, to: &str, serial: u32, load: Load) -> bool {
        let mut books = self.books();
        let begun = books.end(to, serial).unwrap_or_default();
        let silent = begun.silent;
        if begun.of_objects {
            // What hangs below one object alone says little of all.
            books.objects = load.bytes.max(books.objects / 2);
        }
        if !silent {
            self.add(&mut books, to, load);
        }
        drop(books);
        self.ended.notify_waiters();
        // An answer without what was kept for it: there is room again.
        if silent || begun.promised.exceeds(load) {
            self.freed.notify_waiters();
        }
        !silent
    }

    /// Returns when every call that has come is answered, or never will be.
    pub(in crate::bus) async fn answered(&self) {
        loop {
            let ended = self.ended.notified();
            if self
                .books()
                .accounts
                .values()
                .all(|account| account.calls.is_empty())
            {
                return;
            }
            ended.await;
        }
    }

    /// A connection is sent something that answers nothing.
    pub(in crate::bus) fn send(&self, to: &str, load: Load) {
        self.add(&mut self.books(), to, load);
    }

    fn add(&self, books: &mut Books, to: &str, load: Load) {
        books.change(to, |account| {
            account.unread = account.unread.plus(load);
            account.since = account.since.plus(load);
            account.queued = account.queued.plus(load);
        });
        let waiting = books.waiting > 0;
        if let Some(account) = books.accounts.get_mut(to)
            && (waiting || account.unread.exceeds(UNCERTAIN))
        {
            self.watch(to, account);
        }
    }

    fn watch(&self, name: &str, account: &mut Account) {
        if !std::mem::replace(&mut account.watched, true) {
            // If nobody asks any more, the connection is being lost.
            let _ = self.uncertain.send(name.to_owned());
        }
    }

    /// Whose connection it is.
    pub(in crate::bus) fn know(&self, name: &str, user: u32) {
        let known = |account: &mut Account| account.user = Some(user);
        self.books().change(name, known);
    }

    /// Whose connection it is, if that is known.
    pub(in crate::bus) fn user(&self, name: &str) -> Option<u32> {
        self.books().accounts.get(name)?.user
    }

    /// Whether it has called, and not left.
    pub(in crate::bus) fn is_here(&self, name: &str) -> bool {
        self.books().accounts.contains_key(name)
    }

    /// Whether such a call has come and not been answered.
    pub(in crate::bus) fn is_begun(&self, name: &str, serial: u32) -> bool {
        let books = self.books();
        let account = books.accounts.get(name);
        account.is_some_and(|account| account.calls.contains_key(&serial))
    }

    /// The answer to a call is an error: further calls of its user wait if too many have failed.
    pub(in crate::bus) fn failed(&self, name: &str, serial: u32) {
        let books = self.books();
        let Some(account) = books.accounts.get(name) else {
            return;
        };
        let bytes = account.calls.get(&serial).map_or(0, |begun| begun.bytes);
        if let Some(user) = account.user {
            self.pace.lock().failed(user, bytes, Instant::now());
        }
    }

    /// Returns the time until which calls of a user wait because too many have failed.
    pub(in crate::bus) fn waits_until(&self, user: u32, now: Instant) -> Option<Instant> {
        self.pace.lock().waits_until(user, now)
    }

    /// Waits if too many calls of a user have failed.
    pub(in crate::bus) async fn keep_pace(&self, user: u32) {
        while let Some(until) = self.waits_until(user, Instant::now()) {
            tokio::time::sleep_until(until).await;
        }
    }

    /// So much of what a connection was sent has been written.
    pub(in crate::bus) fn wrote(&self, name: &str, load: Load) {
        if let Some(account) = self.books().accounts.get_mut(name) {
            account.queued = account.queued.minus(load);
        }
    }

    /// The bus is about to be asked: what is not written it has not seen, and what is sent from now on it may not have.
    pub(in crate::bus) fn ask(&self, name: &str) {
        if let Some(account) = self.books().accounts.get_mut(name) {
            account.since = account.queued;
        }
    }

    /// The bus holds so much for a connection that it has not taken.
    pub(in crate::bus) fn told(&self, name: &str, left: Load) -> Standing {
        let mut books = self.books();
        let (mut standing, mut taking) = (Standing::Settled, false);
        let waiting = books.waiting > 0;
        books.change(name, |account| {
            let before = account.unread.minus(account.since);
            account.confirmed = before.min(left);
            let unread = account.confirmed.plus(account.since);
            taking = account.unread.exceeds(unread);
            account.unread = unread;
            account.watched = unread.exceeds(UNCERTAIN) || (waiting && unread != Load::default());
            if account.watched {
                standing = if taking {
                    Standing::Taking
                } else {
                    let dropped = account.dropped;
                    Standing::Still { unread, dropped }
                };
            }
        });
        drop(books);
        if taking {
            self.freed.notify_waiters();
        }
        standing
    }

    /// The names of all who have called.
    pub(in crate::bus) fn names(&self) -> Vec<String> {
        self.books().accounts.keys().cloned().collect()
    }

    /// It has left the bus, and what it had not taken went with it.
    pub(in crate::bus) fn leave(&self, name: &str) {
        let mut books = self.books();
        books.change(name, |account| {
            account.work = 0;
            account.unread = Load::default();
            account.confirmed = Load::default();
            account.promised = Load::default();
        });
        books.accounts.remove(name);
        drop(books);
        self.ended.notify_waiters();
        self.freed.notify_waiters();
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock()
    }
}

#[cfg(test)]
mod tests;
