//! Waiting until what a connection was sent has been taken.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use zbus::message::Header;

use super::Accounts;
use super::books::Account;
use super::limits::{FIRST, Load, UNCERTAIN, UNREAD};
use crate::bus::Error;
use crate::bus::authorize::{Caller, Owner};

/// How long an answer waits until earlier ones are taken.
const PATIENCE: Duration = Duration::from_secs(5);

impl Accounts {
    /// Keeps room for the answer to a call if there is some, and waits for none: for properties, as all calls of everyone
    /// wait while one is read.
    pub(in crate::bus) fn room_now(
        &self,
        owner: &Owner,
        header: &Header<'_>,
        need: Load,
    ) -> Result<(), Error> {
        let (name, user) = (owner.caller.name(), owner.client.user);
        self.know(name, user);
        let serial = header.primary().serial_num().get();
        self.promise(name, user, serial, need).map_or(Ok(()), Err)
    }

    /// Waits until there is room for the answer to a call, and keeps it for that.
    pub(in crate::bus) async fn room(
        &self,
        owner: &Owner,
        header: &Header<'_>,
        need: Load,
    ) -> Result<(), Error> {
        let (name, user) = (owner.caller.name(), owner.client.user);
        let serial = header.primary().serial_num().get();
        if self.room_now(owner, header, need).is_ok() {
            return Ok(());
        }
        let until = Instant::now() + PATIENCE;
        let next = self.begin_waiting(name);
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
        self.books().waiting -= 1;
        result
    }

    /// A call waits: from now on whoever has something unread is asked about, however little that is. Of the calls of
    /// one connection only the holder of the lock needs to look.
    pub(super) fn begin_waiting(&self, name: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut books = self.books();
        books.waiting += 1;
        for (name, account) in &mut books.accounts {
            if account.unread != Load::default() {
                self.watch(name, account);
            }
        }
        books.change(name, |account| account.next.clone())
    }

    /// Keeps room for an answer, or tells who has none.
    pub(super) fn promise(&self, name: &str, user: u32, serial: u32, need: Load) -> Option<Error> {
        let mut books = self.books();
        let (all, of_user) = (books.all.held, books.user_of(name).held);
        let account = books.accounts.get_mut(name)?;
        let held = account.held();
        // A single answer may be longer than all that may lie unread, but then nothing else may.
        let single = held.bytes == 0 && need.descriptors == 0;
        let is_first = held.descriptors == 0 && all.descriptors + need.descriptors <= FIRST;
        let of_share = Load {
            bytes: if of_user.bytes == 0 { 0 } else { need.bytes },
            descriptors: if is_first { 0 } else { need.descriptors },
        };
        let full = if held.lacks(need, UNREAD.connection) && !single {
            behind()
        } else if of_user.lacks(of_share, UNREAD.user) {
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
        Some(full)
    }

    /// Whether a connection may be sent more of what it is sent without asking: who reads all may, whatever others leave.
    pub(super) fn may_send(&self, name: &str) -> bool {
        let books = self.books();
        let Some(held) = books.accounts.get(name).map(Account::held) else {
            return true;
        };
        !held.exceeds(UNCERTAIN)
            || !(held.exceeds(UNREAD.connection)
                || books.user_of(name).held.exceeds(UNREAD.user)
                || books.all.held.exceeds(UNREAD.all))
    }

    /// Waits for what a connection takes.
    pub(in crate::bus) fn taking<'a>(
        &'a self,
        caller: &'a Caller,
        patience: Duration,
    ) -> Taking<'a> {
        Taking {
            accounts: self,
            caller,
            patience,
        }
    }
}

fn behind() -> Error {
    let why = "this connection has not read the answers to its earlier calls; read them first";
    Error::QuotaExceeded(why.to_owned())
}

/// What a connection takes of that which it is sent without asking.
#[derive(Clone, Copy, Debug)]
pub(in crate::bus) struct Taking<'a> {
    accounts: &'a Accounts,
    caller: &'a Caller,
    patience: Duration,
}

impl Taking<'_> {
    /// Waits until it has taken most of it; `false` if it does not.
    pub(in crate::bus) async fn takes(&self) -> bool {
        let until = Instant::now() + self.patience;
        loop {
            let freed = self.accounts.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if self.accounts.may_send(self.caller.name()) {
                return true;
            }
            if timeout_at(until, freed).await.is_err() {
                return false;
            }
        }
    }
}
