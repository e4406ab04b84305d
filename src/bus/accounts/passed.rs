//! Answers that carry descriptors, as long as the bus may still send them back: it does not pass them to connections that
//! have not asked for descriptors when they connected, and tells the sender alone.

use std::collections::VecDeque;

use parking_lot::Mutex;

use super::Accounts;

/// Answers that are remembered: many more than may be on their way to the bus at once.
const LATEST: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Passed(Mutex<VecDeque<(u32, Undelivered)>>);

/// A call whose answer the bus did not deliver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::bus) struct Undelivered {
    pub(in crate::bus) caller: String,
    /// The caller counts its calls by it.
    pub(in crate::bus) serial: u32,
}

impl Accounts {
    /// An answer with descriptors is being written; `serial` is the daemon's.
    pub(in crate::bus) fn pass(&self, serial: u32, call: Undelivered) {
        let mut latest = self.passed.0.lock();
        if latest.len() == LATEST {
            latest.pop_front();
        }
        latest.push_back((serial, call));
    }

    /// The bus has sent a message back because of its descriptors: if it is one of those, tells which call it was to
    /// answer, and remembers what kind of connection that is.
    pub(in crate::bus) fn sent_back(&self, serial: u32) -> Option<Undelivered> {
        let mut latest = self.passed.0.lock();
        let at = latest.iter().position(|(written, _)| *written == serial)?;
        let (_, call) = latest.remove(at)?;
        drop(latest);
        if let Some(account) = self.books().accounts.get_mut(&call.caller) {
            account.without_descriptors = true;
        }
        Some(call)
    }

    /// Whether it is known that a connection takes no descriptors.
    pub(in crate::bus) fn is_without_descriptors(&self, name: &str) -> bool {
        let books = self.books();
        let account = books.accounts.get(name);
        account.is_some_and(|account| account.without_descriptors)
    }
}
