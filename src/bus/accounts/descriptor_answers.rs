//! Answers with descriptors that the bus may still return: it does not deliver them to connections that did not enable
//! descriptor passing, and reports that to the sender alone.

use std::collections::VecDeque;

use parking_lot::Mutex;

use super::Accounts;

/// Answers that are remembered: many more than may be on their way to the bus at once.
const LATEST: usize = 256;

#[derive(Debug, Default)]
pub(super) struct DescriptorAnswers(Mutex<VecDeque<(u32, ReturnedAnswer)>>);

/// The call of an answer with descriptors, which the bus may return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::bus) struct ReturnedAnswer {
    pub(in crate::bus) caller: String,
    /// The serial of the call.
    pub(in crate::bus) serial: u32,
}

impl Accounts {
    /// Remembers an answer with descriptors that is being written; `serial` is the answer's own.
    pub(in crate::bus) fn remember_answer(&self, serial: u32, call: ReturnedAnswer) {
        let mut latest = self.descriptor_answers.0.lock();
        if latest.len() == LATEST {
            latest.pop_front();
        }
        latest.push_back((serial, call));
    }

    /// Returns the call of an answer that the bus has returned because of its descriptors, and marks the caller's connection.
    pub(in crate::bus) fn returned(&self, serial: u32) -> Option<ReturnedAnswer> {
        let mut latest = self.descriptor_answers.0.lock();
        let at = latest.iter().position(|(written, _)| *written == serial)?;
        let (_, call) = latest.remove(at)?;
        drop(latest);
        if let Some(account) = self.ledger().accounts.get_mut(&call.caller) {
            account.without_descriptors = true;
        }
        Some(call)
    }

    /// Whether a connection is known to take no descriptors.
    pub(in crate::bus) fn is_without_descriptors(&self, name: &str) -> bool {
        let ledger = self.ledger();
        let account = ledger.accounts.get(name);
        account.is_some_and(|account| account.without_descriptors)
    }
}
