//! The accounts of all connections, and their sums for each user and for all, which change together.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::limits::Load;

/// A call that was admitted or refused, and is not answered yet.
#[derive(Debug, Default)]
pub(super) struct PendingCall {
    pub(super) bytes: usize,
    /// Whether its caller wants no answer.
    pub(super) silent: bool,
    /// Room that is reserved for its answer.
    pub(super) reserved: Load,
    /// Whether its answer lists all objects.
    pub(super) lists_objects: bool,
}

/// The account of one connection.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub(super) user: Option<u32>,
    /// The pending calls, by serial.
    pub(super) calls: HashMap<u32, PendingCall>,
    /// Bytes of the pending calls.
    pub(super) work: usize,
    /// Messages to the connection that may be unread.
    pub(super) unread: Load,
    /// The part of them that the bus held at its latest report.
    pub(super) confirmed: Load,
    /// The part that was sent after the latest query to the bus.
    pub(super) since_query: Load,
    /// The part of that which is not yet written to the bus.
    pub(super) queued: Load,
    /// Room that is reserved for answers.
    pub(super) reserved: Load,
    /// Held by the first of its calls that wait for room.
    pub(super) first_waiting: Arc<tokio::sync::Mutex<()>>,
    /// Whether the bus is queried about it.
    pub(super) watched: bool,
    /// Whether the bus is known to pass no descriptors to it.
    pub(super) without_descriptors: bool,
    /// Calls that were dropped without an answer.
    pub(super) dropped: u64,
}

impl Account {
    /// Returns the load that counts against limits.
    pub(super) fn held(&self) -> Load {
        self.unread.plus(self.reserved)
    }
}

/// The sum of the accounts of one user, or of all accounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) work: usize,
    pub(super) held: Load,
}

/// All accounts, by the name of the connection.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) accounts: HashMap<String, Account>,
    /// Users with an empty sum are not listed.
    pub(super) users: HashMap<u32, Sum>,
    pub(super) all: Sum,
    /// Bytes of recent answers that list all objects.
    pub(super) objects: usize,
    /// Calls that wait for room.
    pub(super) waiting: usize,
    /// Messages that could not be parsed.
    pub(super) unparsable: u64,
    /// When those were reported last.
    pub(super) reported: Option<Instant>,
}

impl Ledger {
    /// Returns the account of a connection; opens one if it has none.
    pub(super) fn account(&mut self, name: &str) -> &mut Account {
        self.accounts.entry(name.to_owned()).or_default()
    }

    /// Returns the sum of the connections of the same user; empty while the user is not known.
    pub(super) fn user_of(&self, name: &str) -> Sum {
        let user = self.accounts.get(name).and_then(|account| account.user);
        let sum = user.and_then(|user| self.users.get(&user));
        sum.copied().unwrap_or_default()
    }

    /// Changes an account, and the sums with it. Does nothing for a connection without an account.
    pub(super) fn change<T: Default>(
        &mut self,
        name: &str,
        change: impl FnOnce(&mut Account) -> T,
    ) -> T {
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

    /// Removes a pending call.
    pub(super) fn end(&mut self, name: &str, serial: u32) -> Option<PendingCall> {
        self.change(name, |account| {
            let call = account.calls.remove(&serial)?;
            account.work -= call.bytes;
            account.reserved = account.reserved.minus(call.reserved);
            Some(call)
        })
    }
}

impl Sum {
    pub(super) fn add(&mut self, work: usize, held: Load) {
        self.work += work;
        self.held = self.held.plus(held);
    }

    pub(super) fn subtract(&mut self, work: usize, held: Load) {
        self.work = self.work.saturating_sub(work);
        self.held = self.held.minus(held);
    }
}
