//! Answers that the bus returns because of their descriptors: their connections take none.

use super::Accounts;
use super::descriptor_answers::ReturnedAnswer;

impl Accounts {
    /// Remembers an answer with descriptors that is being written; `serial` is the answer's own.
    pub(in crate::bus) fn remember_answer(&self, serial: u32, call: ReturnedAnswer) {
        self.descriptor_answers.remember(serial, call);
    }

    /// Returns the call of an answer that the bus has returned because of its descriptors, and marks the caller's connection.
    pub(in crate::bus) fn returned(&self, serial: u32) -> Option<ReturnedAnswer> {
        let call = self.descriptor_answers.take(serial)?;
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
