//! Room for answers: reserves it for calls, and waits until connections have read earlier answers.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use zbus::message::Header;

use super::Accounts;
use super::ledger::Account;
use super::limits::{FIRST_DESCRIPTORS, Load, UNCERTAIN, UNREAD};
use crate::bus::error::Error;
use crate::bus::owner::{Caller, ObjectOwner};

/// How long a call waits until earlier answers are read.
const PATIENCE: Duration = Duration::from_secs(5);

impl Accounts {
    /// Reserves room for the answer to a call, and never waits: all calls wait while a property is read.
    pub(in crate::bus) fn room_now(
        &self,
        owner: &ObjectOwner,
        header: &Header<'_>,
        need: Load,
    ) -> Result<(), Error> {
        let (name, user) = (owner.caller.name(), owner.client.user);
        self.set_user(name, user);
        let serial = header.primary().serial_num().get();
        self.reserve(name, user, serial, need).map_or(Ok(()), Err)
    }

    /// Waits until there is room for the answer to a call, and reserves it.
    pub(in crate::bus) async fn room(
        &self,
        owner: &ObjectOwner,
        header: &Header<'_>,
        need: Load,
    ) -> Result<(), Error> {
        let (name, user) = (owner.caller.name(), owner.client.user);
        let serial = header.primary().serial_num().get();
        if self.room_now(owner, header, need).is_ok() {
            return Ok(());
        }
        let until = Instant::now() + PATIENCE;
        let first_waiting = self.begin_waiting(name);
        let result = match timeout_at(until, first_waiting.lock()).await {
            Err(_) => Err(unread_answers()),
            Ok(_guard) => loop {
                let freed = self.freed.notified();
                tokio::pin!(freed);
                // The wait is registered before the look, so that no notification is missed.
                freed.as_mut().enable();
                let Some(full) = self.reserve(name, user, serial, need) else {
                    break Ok(());
                };
                if timeout_at(until, freed).await.is_err() {
                    break Err(full);
                }
            },
        };
        self.ledger().waiting -= 1;
        result
    }

    /// Counts a call that waits for room: the bus is then queried about all connections with unread messages. Returns the lock
    /// of the connection; only its holder needs to look for room.
    pub(super) fn begin_waiting(&self, name: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut ledger = self.ledger();
        ledger.waiting += 1;
        for (name, account) in &mut ledger.accounts {
            if account.unread != Load::default() {
                self.watch(name, account);
            }
        }
        ledger.change(name, |account| account.first_waiting.clone())
    }

    /// Reserves room for an answer, or returns the error of the limit that leaves none.
    pub(super) fn reserve(&self, name: &str, user: u32, serial: u32, need: Load) -> Option<Error> {
        let mut ledger = self.ledger();
        let (all, of_user) = (ledger.all.held, ledger.user_of(name).held);
        let account = ledger.accounts.get_mut(name)?;
        let held = account.held();
        // A single answer may exceed the limit of a connection that has no other unread messages.
        let single = held.bytes == 0 && need.descriptors == 0;
        let is_first =
            held.descriptors == 0 && all.descriptors + need.descriptors <= FIRST_DESCRIPTORS;
        let of_share = Load {
            bytes: if of_user.bytes == 0 { 0 } else { need.bytes },
            descriptors: if is_first { 0 } else { need.descriptors },
        };
        let full = if held.lacks(need, UNREAD.connection) && !single {
            unread_answers()
        } else if of_user.lacks(of_share, UNREAD.user) {
            Error::QuotaExceeded(format!(
                "connections of user {user} have not read the answers to their earlier calls; read them first"
            ))
        } else if all.lacks(need, UNREAD.all) {
            Error::Busy("other users have too many unread answers; try again later".to_owned())
        } else {
            ledger.change(name, |account| {
                if let Some(call) = account.calls.get_mut(&serial) {
                    call.reserved = need;
                    account.reserved = account.reserved.plus(need);
                }
            });
            return None;
        };
        Some(full)
    }

    /// Whether a connection may be sent another signal. A connection that reads everything may, whatever others leave unread.
    pub(super) fn may_signal(&self, name: &str) -> bool {
        let ledger = self.ledger();
        let Some(held) = ledger.accounts.get(name).map(Account::held) else {
            return true;
        };
        !held.exceeds(UNCERTAIN)
            || !(held.exceeds(UNREAD.connection)
                || ledger.user_of(name).held.exceeds(UNREAD.user)
                || ledger.all.held.exceeds(UNREAD.all))
    }

    /// Returns the flow control of signals to a connection; `patience` is the longest wait for it to read.
    pub(in crate::bus) fn signal_flow<'a>(
        &'a self,
        caller: &'a Caller,
        patience: Duration,
    ) -> SignalFlow<'a> {
        SignalFlow {
            accounts: self,
            caller,
            patience,
        }
    }
}

fn unread_answers() -> Error {
    let why = "this connection has not read the answers to its earlier calls; read them first";
    Error::QuotaExceeded(why.to_owned())
}

/// Flow control of signals to one connection.
#[derive(Clone, Copy, Debug)]
pub(in crate::bus) struct SignalFlow<'a> {
    accounts: &'a Accounts,
    caller: &'a Caller,
    patience: Duration,
}

impl SignalFlow<'_> {
    /// Waits until the connection may be sent another signal; `false` if it does not read in time.
    pub(in crate::bus) async fn ready(&self) -> bool {
        let until = Instant::now() + self.patience;
        loop {
            let freed = self.accounts.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if self.accounts.may_signal(self.caller.name()) {
                return true;
            }
            if timeout_at(until, freed).await.is_err() {
                return false;
            }
        }
    }
}
