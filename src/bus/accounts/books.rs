//! The accounts themselves, and the sums of them, which change together.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::limits::Load;

/// A call that has been taken or refused and not been answered.
#[derive(Debug, Default)]
pub(super) struct Begun {
    pub(super) bytes: usize,
    pub(super) silent: bool,
    /// Room that its answer will take.
    pub(super) promised: Load,
    /// Whether that tells of all objects.
    pub(super) of_objects: bool,
}

#[derive(Debug, Default)]
pub(super) struct Account {
    pub(super) user: Option<u32>,
    pub(super) calls: HashMap<u32, Begun>,
    /// Bytes of the calls.
    pub(super) work: usize,
    /// Sent, and not known to have been taken.
    pub(super) unread: Load,
    /// The bus said that so much of it was unread, when it was asked last.
    pub(super) confirmed: Load,
    /// So much was sent since the bus was asked.
    pub(super) since: Load,
    /// So much of that is not even written.
    pub(super) queued: Load,
    /// So much is promised to those whose calls wait for room.
    pub(super) promised: Load,
    /// The next of its calls that wait for room holds it.
    pub(super) next: Arc<tokio::sync::Mutex<()>>,
    pub(super) watched: bool,
    /// Whether the bus is known to pass it none.
    pub(super) without_descriptors: bool,
    /// Calls without an answer.
    pub(super) dropped: u64,
}

impl Account {
    /// What counts against limits.
    pub(super) fn held(&self) -> Load {
        self.unread.plus(self.promised)
    }
}

/// What all accounts of a user, or all at all, come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) work: usize,
    pub(super) held: Load,
}

#[derive(Debug, Default)]
pub(super) struct Books {
    pub(super) accounts: HashMap<String, Account>,
    /// Users whose connections hold nothing are not listed.
    pub(super) users: HashMap<u32, Sum>,
    pub(super) all: Sum,
    /// Bytes of answers about all objects, of late.
    pub(super) objects: usize,
    /// Calls that wait for room.
    pub(super) waiting: usize,
    /// Messages that could not be read, and when that was told.
    pub(super) unreadable: u64,
    pub(super) told: Option<Instant>,
}

impl Books {
    /// The account of a connection that calls: from now on it has one.
    pub(super) fn account(&mut self, name: &str) -> &mut Account {
        self.accounts.entry(name.to_owned()).or_default()
    }

    /// What the connections of the same user come to, if it is known who that is.
    pub(super) fn user_of(&self, name: &str) -> Sum {
        let user = self.accounts.get(name).and_then(|account| account.user);
        let sum = user.and_then(|user| self.users.get(&user));
        sum.copied().unwrap_or_default()
    }

    /// Changes an account, and the sums with it. One that has left has none.
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

    pub(super) fn end(&mut self, name: &str, serial: u32) -> Option<Begun> {
        self.change(name, |account| {
            let begun = account.calls.remove(&serial)?;
            account.work -= begun.bytes;
            account.promised = account.promised.minus(begun.promised);
            Some(begun)
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
