//! What each connection has given the daemon to do, and what it was sent and has not taken from the bus.
//!
//! dbus-daemon reads nothing more from a sender of whose messages 64 descriptors or 127 MiB lie unread, and says nothing
//! of it: one client that does not read would stop the daemon for all. So calls that are being dealt with are bounded
//! before their bodies are kept, and answers while the bus still holds earlier ones: for each connection, for each user,
//! and together. How much the bus holds is asked of it by `unread`; here is only counted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, timeout_at};
use zbus::message::Header;

use super::Error;
use super::authorize::{Caller, Owner};
use crate::journal;

/// The bus itself, as a sender.
pub(super) const BUS: &str = "org.freedesktop.DBus";

/// Bytes of one call: a text as long as one may be, in as many messages as there may be.
pub(super) const LONGEST_CALL: usize = 3 << 20;
/// Calls of one connection that have no answer yet; dbus-daemon lets as many wait for one.
const CALLS: usize = 128;
/// How long an answer waits until earlier ones are taken.
const PATIENCE: Duration = Duration::from_secs(5);
/// The least time between two events about unreadable messages.
const TOLD: Duration = Duration::from_secs(60);

/// Something that takes memory here or on the bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) bytes: usize,
    pub(super) descriptors: usize,
}

impl Load {
    fn plus(self, more: Self) -> Self {
        Self {
            bytes: self.bytes + more.bytes,
            descriptors: self.descriptors + more.descriptors,
        }
    }

    fn minus(self, less: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(less.bytes),
            descriptors: self.descriptors.saturating_sub(less.descriptors),
        }
    }

    fn min(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.min(other.bytes),
            descriptors: self.descriptors.min(other.descriptors),
        }
    }

    /// Whether there is no room for `need` beside this; of what is not needed there may be too much.
    fn lacks(self, need: Self, limit: Self) -> bool {
        (need.bytes > 0 && self.bytes + need.bytes > limit.bytes)
            || (need.descriptors > 0 && self.descriptors + need.descriptors > limit.descriptors)
    }

    fn exceeds(self, limit: Self) -> bool {
        self.bytes > limit.bytes || self.descriptors > limit.descriptors
    }
}

/// What one connection, one user, and all together may have.
struct Shares<T> {
    connection: T,
    user: T,
    all: T,
}

/// Bytes of calls that are being dealt with.
const WORK: Shares<usize> = Shares {
    connection: 6 << 20,
    user: 12 << 20,
    all: 24 << 20,
};

/// What may lie unread on the bus: well below what it takes, and one user's share well below that.
const UNREAD: Shares<Load> = Shares {
    connection: Load {
        bytes: 1 << 20,
        descriptors: 4,
    },
    user: Load {
        bytes: 8 << 20,
        descriptors: 16,
    },
    all: Load {
        bytes: 32 << 20,
        descriptors: 48,
    },
};

/// While all together have no more unread, a connection that has none may have one beyond its user's share: programs of
/// a robot often run as one user, and one of them that does not read must not stop the others.
const FIRST: usize = 32;

/// More than this of one connection, and the bus is asked how much of it is unread.
const UNCERTAIN: Load = Load {
    bytes: 64 << 10,
    descriptors: 2,
};

/// A call, as its header tells it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    /// Of the caller's own counting.
    pub(super) serial: u32,
    pub(super) bytes: usize,
    /// Whether the caller expects an answer.
    pub(super) answered: bool,
}

/// What becomes of a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Taken,
    /// Its answer says why.
    Refused(String),
    /// It gets no answer: its connection does not read those it has.
    Dropped,
}

/// A call that has been taken or refused and not been answered.
#[derive(Debug, Default)]
struct Begun {
    bytes: usize,
    silent: bool,
    /// Room that its answer will take.
    promised: Load,
}

#[derive(Debug, Default)]
struct Account {
    user: Option<u32>,
    calls: HashMap<u32, Begun>,
    /// Bytes of the calls.
    work: usize,
    /// Sent, and not known to have been taken.
    unread: Load,
    /// Of this, what was sent since the bus was asked.
    since: Load,
    /// To those whose calls wait for room.
    promised: Load,
    /// Calls that wait for room, and the one of them that is next: the others need not look.
    waiting: usize,
    next: Arc<tokio::sync::Mutex<()>>,
    watched: bool,
    /// Calls without an answer.
    dropped: u64,
}

impl Account {
    /// What counts against limits.
    fn held(&self) -> Load {
        self.unread.plus(self.promised)
    }
}

/// What all accounts of a user, or all at all, come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    work: usize,
    held: Load,
}

#[derive(Debug, Default)]
struct Books {
    accounts: HashMap<String, Account>,
    /// Users whose connections hold nothing are not listed.
    users: HashMap<u32, Sum>,
    all: Sum,
    /// Messages that could not be read, and when that was told.
    unreadable: u64,
    told: Option<Instant>,
}

/// The accounts of one connection to the bus.
#[derive(Debug)]
pub(super) struct Accounts {
    books: Mutex<Books>,
    /// Something was taken.
    freed: Notify,
    /// Of whom the bus is to be asked.
    uncertain: mpsc::UnboundedSender<String>,
    /// The daemon's own unique name.
    own: OnceLock<String>,
}

/// What the bus said of a connection comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// There is little that it has not taken, or it has left.
    Settled,
    /// It has taken some.
    Taking,
    /// It has taken nothing, and has this much to take.
    Still { unread: Load, dropped: u64 },
}

impl Accounts {
    /// Also gives the names of those of whom the bus is to be asked.
    pub(super) fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<String>) {
        let (uncertain, names) = mpsc::unbounded_channel();
        let accounts = Self {
            books: Mutex::default(),
            freed: Notify::new(),
            uncertain,
            own: OnceLock::new(),
        };
        (Arc::new(accounts), names)
    }

    pub(super) fn set_own(&self, name: &str) {
        let _ = self.own.set(name.to_owned());
    }

    pub(super) fn is_own(&self, name: &str) -> bool {
        self.own.get().is_some_and(|own| own == name)
    }

    /// A message could not be read. Told at once, then at most once a minute.
    pub(super) fn count_unreadable(&self) {
        let mut books = self.books();
        books.unreadable += 1;
        let now = Instant::now();
        if books.told.is_none_or(|told| now - told >= TOLD) {
            books.told = Some(now);
            journal::messages_unreadable(books.unreadable);
        }
    }

    /// A call has come; its body has not.
    pub(super) fn begin(&self, sender: &str, call: Call) -> Admission {
        let mut books = self.books();
        let (all, user) = (books.all, books.user_of(sender));
        let account = books.account(sender);
        let held = account.held();
        let full = held.exceeds(UNREAD.connection)
            || user.held.exceeds(UNREAD.user)
            || all.held.exceeds(UNREAD.all);
        if full && held.exceeds(UNCERTAIN) {
            account.dropped += 1;
            return Admission::Dropped;
        }
        // A serial that is in use already cannot be told from the other by its answer.
        if account.calls.contains_key(&call.serial) || account.calls.len() >= 2 * CALLS {
            account.dropped += 1;
            return Admission::Dropped;
        }
        let refused = if call.bytes > LONGEST_CALL {
            let bytes = call.bytes;
            Some(format!(
                "the call has {bytes} bytes; at most {LONGEST_CALL} are taken in one"
            ))
        } else if account.calls.len() >= CALLS
            || account.work + call.bytes > WORK.connection
            || user.work + call.bytes > WORK.user
            || all.work + call.bytes > WORK.all
        {
            Some(
                "too many calls of this connection, of its user or of all wait for an answer; \
                 read answers before calling again"
                    .to_owned(),
            )
        } else {
            None
        };
        if refused.is_some() && !call.answered {
            account.dropped += 1;
            return Admission::Dropped;
        }
        let begun = Begun {
            bytes: if refused.is_some() { 0 } else { call.bytes },
            silent: !call.answered,
            promised: Load::default(),
        };
        books.change(sender, |account| {
            account.work += begun.bytes;
            account.calls.insert(call.serial, begun);
        });
        refused.map_or(Admission::Taken, Admission::Refused)
    }

    /// A call will have no answer after all.
    pub(super) fn forgo(&self, sender: &str, serial: u32) {
        self.books().end(sender, serial);
    }

    /// A call is answered; `false` if its caller wants no answer.
    pub(super) fn answer(&self, to: &str, serial: u32, load: Load) -> bool {
        let mut books = self.books();
        let silent = books.end(to, serial).is_some_and(|begun| begun.silent);
        if !silent {
            self.add(&mut books, to, load);
        }
        drop(books);
        self.freed.notify_waiters();
        !silent
    }

    /// A connection is sent something that answers nothing.
    pub(super) fn send(&self, to: &str, load: Load) {
        self.add(&mut self.books(), to, load);
    }

    fn add(&self, books: &mut Books, to: &str, load: Load) {
        books.change(to, |account| {
            account.unread = account.unread.plus(load);
            account.since = account.since.plus(load);
        });
        if let Some(account) = books.accounts.get_mut(to)
            && account.unread.exceeds(UNCERTAIN)
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

    /// Waits until there is room for the answer to a call, and keeps it for that.
    pub(super) async fn room(
        &self,
        owner: &Owner,
        header: &Header<'_>,
        need: Load,
    ) -> Result<(), Error> {
        let (name, user) = (owner.caller.name(), owner.client.user);
        let serial = header.primary().serial_num().get();
        let until = Instant::now() + PATIENCE;
        let next = self.books().change(name, |account| {
            account.user = Some(user);
            account.waiting += 1;
            account.next.clone()
        });
        let result = match timeout_at(until, next.lock()).await {
            Err(_) => Err(behind()),
            Ok(_next) => loop {
                let freed = self.freed.notified();
                tokio::pin!(freed);
                // From here on it is noticed.
                freed.as_mut().enable();
                let Some(full) = self.promise(name, user, serial, need) else {
                    break Ok(());
                };
                if timeout_at(until, freed).await.is_err() {
                    break Err(full);
                }
            },
        };
        self.books().change(name, |account| account.waiting -= 1);
        result
    }

    /// Keeps room for an answer, or tells who has none.
    fn promise(&self, name: &str, user: u32, serial: u32, need: Load) -> Option<Error> {
        let mut books = self.books();
        let (all, of_user) = (books.all.held, books.user_of(name).held);
        let account = books.accounts.get_mut(name)?;
        let held = account.held();
        // A single answer may be longer than all that may lie unread, but then nothing else may.
        let single = held.bytes == 0 && need.descriptors == 0;
        let is_first = held.descriptors == 0 && all.descriptors + need.descriptors <= FIRST;
        let full = if held.lacks(need, UNREAD.connection) && !single {
            behind()
        } else if of_user.lacks(need, UNREAD.user) && !is_first {
            Error::QuotaExceeded(format!(
                "connections of user {user} have not read the answers to their earlier calls; read them first"
            ))
        } else if all.lacks(need, UNREAD.all) {
            Error::Busy("too many answers wait to be read by others; try again".to_owned())
        } else {
            books.change(name, |account| {
                if let Some(begun) = account.calls.get_mut(&serial) {
                    begun.promised = need;
                    account.promised = account.promised.plus(need);
                }
            });
            return None;
        };
        // Whoever holds a part of it is asked about, however little that is.
        for (name, account) in &mut books.accounts {
            if account.unread != Load::default() {
                self.watch(name, account);
            }
        }
        Some(full)
    }

    /// To wait for what a connection takes.
    pub(super) fn taking<'a>(&'a self, caller: &'a Caller, patience: Duration) -> Taking<'a> {
        Taking {
            accounts: self,
            caller,
            patience,
        }
    }

    /// Whose connection it is.
    pub(super) fn know(&self, name: &str, user: u32) {
        let known = |account: &mut Account| account.user = Some(user);
        self.books().change(name, known);
    }

    /// The bus is about to be asked: what is sent from now on it may not have seen.
    pub(super) fn ask(&self, name: &str) {
        if let Some(account) = self.books().accounts.get_mut(name) {
            account.since = Load::default();
        }
    }

    /// The bus holds so much for a connection that it has not taken.
    pub(super) fn told(&self, name: &str, left: Load) -> Standing {
        let mut books = self.books();
        let mut standing = Standing::Settled;
        books.change(name, |account| {
            let before = account.unread.minus(account.since);
            let unread = before.min(left).plus(account.since);
            let taking = unread.bytes < account.unread.bytes
                || unread.descriptors < account.unread.descriptors;
            account.unread = unread;
            account.watched =
                unread.exceeds(UNCERTAIN) || (account.waiting > 0 && unread != Load::default());
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
        self.freed.notify_waiters();
        standing
    }

    /// Of all who have called.
    pub(super) fn names(&self) -> Vec<String> {
        self.books().accounts.keys().cloned().collect()
    }

    /// It has left the bus, and what it had not taken went with it.
    pub(super) fn leave(&self, name: &str) {
        let mut books = self.books();
        books.change(name, |account| {
            account.work = 0;
            account.unread = Load::default();
            account.promised = Load::default();
        });
        books.accounts.remove(name);
        drop(books);
        self.freed.notify_waiters();
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        // Every change is complete before anything could panic.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn behind() -> Error {
    let why = "this connection has not read the answers to its earlier calls; read them first";
    Error::QuotaExceeded(why.to_owned())
}

/// What a connection takes of that which it is sent without asking.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taking<'a> {
    accounts: &'a Accounts,
    caller: &'a Caller,
    patience: Duration,
}

impl Taking<'_> {
    /// Waits until it has taken most of it; `false` if it does not.
    pub(super) async fn takes(&self) -> bool {
        let until = Instant::now() + self.patience;
        loop {
            let freed = self.accounts.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            let held = {
                let books = self.accounts.books();
                books.accounts.get(self.caller.name()).map(Account::held)
            };
            if held.is_none_or(|held| !held.exceeds(UNREAD.connection)) {
                return true;
            }
            if timeout_at(until, freed).await.is_err() {
                return false;
            }
        }
    }
}

impl Books {
    /// Of a connection that calls: from now on it has one.
    fn account(&mut self, name: &str) -> &mut Account {
        if !self.accounts.contains_key(name) {
            self.accounts.insert(name.to_owned(), Account::default());
        }
        self.accounts.entry(name.to_owned()).or_default()
    }

    /// What the connections of the same user come to, if it is known who that is.
    fn user_of(&self, name: &str) -> Sum {
        let user = self.accounts.get(name).and_then(|account| account.user);
        let sum = user.and_then(|user| self.users.get(&user));
        sum.copied().unwrap_or_default()
    }

    /// Changes an account, and the sums with it. One that has left has none.
    fn change<T: Default>(&mut self, name: &str, change: impl FnOnce(&mut Account) -> T) -> T {
        let Some(account) = self.accounts.get_mut(name) else {
            return T::default();
        };
        let (user, work, held) = (account.user, account.work, account.held());
        let changed = change(account);
        let now = (account.user, account.work, account.held());
        self.all.subtract(work, held);
        self.all.add(now.1, now.2);
        if let Some(user) = user
            && let Some(sum) = self.users.get_mut(&user)
        {
            sum.subtract(work, held);
            if *sum == Sum::default() {
                self.users.remove(&user);
            }
        }
        if let Some(user) = now.0 {
            let sum = self.users.entry(user).or_default();
            sum.add(now.1, now.2);
            if *sum == Sum::default() {
                self.users.remove(&user);
            }
        }
        changed
    }

    fn end(&mut self, name: &str, serial: u32) -> Option<Begun> {
        self.change(name, |account| {
            let begun = account.calls.remove(&serial)?;
            account.work -= begun.bytes;
            account.promised = account.promised.minus(begun.promised);
            Some(begun)
        })
    }
}

impl Sum {
    fn add(&mut self, work: usize, held: Load) {
        self.work += work;
        self.held = self.held.plus(held);
    }

    fn subtract(&mut self, work: usize, held: Load) {
        self.work = self.work.saturating_sub(work);
        self.held = self.held.minus(held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: Load = Load {
        bytes: 100,
        descriptors: 1,
    };

    fn call(serial: u32, bytes: usize) -> Call {
        Call {
            serial,
            bytes,
            answered: true,
        }
    }

    fn refused(admission: &Admission) -> bool {
        matches!(admission, Admission::Refused(_))
    }

    #[test]
    fn calls_in_work_are_bounded_for_each_connection_and_in_all() {
        let (accounts, _names) = Accounts::new();
        assert!(refused(&accounts.begin(":1.1", call(1, LONGEST_CALL + 1))));
        let each = 2 << 20;
        for serial in 2..5 {
            assert_eq!(accounts.begin(":1.1", call(serial, each)), Admission::Taken);
        }
        assert!(refused(&accounts.begin(":1.1", call(5, each))));
        assert_eq!(
            accounts.begin(":1.1", call(4, 1)),
            Admission::Dropped,
            "twice"
        );
        // An answer makes room, and only one answer does.
        assert!(accounts.answer(":1.1", 2, ANSWER));
        assert_eq!(accounts.begin(":1.1", call(6, each)), Admission::Taken);
        assert!(refused(&accounts.begin(":1.1", call(7, each))));

        for other in 2..6 {
            for serial in 0..3 {
                accounts.begin(&format!(":1.{other}"), call(serial, each));
            }
        }
        assert_eq!(accounts.books().all.work, WORK.all);
        assert!(refused(&accounts.begin(":1.9", call(1, each))));
        accounts.leave(":1.2");
        assert_eq!(accounts.begin(":1.9", call(2, each)), Admission::Taken);
    }

    #[test]
    fn a_call_that_wants_no_answer_ends_and_gets_none() {
        let (accounts, _names) = Accounts::new();
        let silent = Call {
            answered: false,
            ..call(1, 1000)
        };
        assert_eq!(accounts.begin(":1.1", silent), Admission::Taken);
        assert!(!accounts.answer(":1.1", 1, ANSWER));
        assert_eq!(accounts.books().all, Sum::default());
    }

    #[test]
    fn who_does_not_read_is_heard_no_more_and_who_reads_is() {
        let (accounts, mut names) = Accounts::new();
        for serial in 0..20_000 {
            if accounts.begin(":1.1", call(serial, 100)) == Admission::Taken {
                accounts.answer(":1.1", serial, ANSWER);
            }
            assert_eq!(accounts.begin(":1.2", call(serial, 100)), Admission::Taken);
            accounts.answer(":1.2", serial, Load::default());
        }
        assert_eq!(accounts.begin(":1.1", call(0, 100)), Admission::Dropped);
        assert!(accounts.books().all.held.bytes < 2 * UNREAD.connection.bytes);
        assert_eq!(names.try_recv().unwrap(), ":1.1");
        assert!(names.try_recv().is_err(), "each is asked about once");

        accounts.ask(":1.1");
        let all = accounts.books().all.held;
        let still = accounts.told(":1.1", all);
        assert!(matches!(still, Standing::Still { dropped, .. } if dropped > 0));
        // What is sent while the bus is asked, it may not have counted.
        accounts.ask(":1.1");
        accounts.send(":1.1", ANSWER);
        assert_eq!(accounts.told(":1.1", Load::default()), Standing::Settled);
        assert_eq!(accounts.books().all.held, ANSWER);
        assert_eq!(accounts.begin(":1.1", call(1, 100)), Admission::Taken);
    }

    #[test]
    fn room_for_answers_is_shared_by_users() {
        let (accounts, mut names) = Accounts::new();
        let one = Load {
            bytes: 0,
            descriptors: 1,
        };
        let mut answered = [0; 4];
        for connection in 0..40 {
            let (name, user) = (format!(":1.{connection}"), connection % 4);
            accounts.begin(&name, call(1, 100));
            accounts
                .books()
                .change(&name, |account| account.user = Some(user));
            for serial in 2..20 {
                accounts.begin(&name, call(serial, 100));
                if accounts.promise(&name, user, serial, one).is_none() {
                    accounts.answer(&name, serial, ANSWER);
                    answered[user as usize] += 1;
                }
            }
        }
        assert!(
            answered.iter().all(|&answered| answered >= 8),
            "{answered:?}"
        );
        assert_eq!(answered.iter().sum::<usize>(), UNREAD.all.descriptors);
        // Whoever holds something is asked about.
        let mut asked = 0;
        while names.try_recv().is_ok() {
            asked += 1;
        }
        assert!(asked >= 5, "{asked}");
    }
}
