//! Answers with descriptors that the bus may still return: it does not deliver them to connections that did not enable
//! descriptor passing, and reports that to the sender alone.

use std::collections::VecDeque;

use parking_lot::Mutex;

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

impl DescriptorAnswers {
    /// Remembers an answer that is being written; `serial` is the answer's own.
    pub(super) fn remember(&self, serial: u32, call: ReturnedAnswer) {
        let mut latest = self.0.lock();
        if latest.len() == LATEST {
            latest.pop_front();
        }
        latest.push_back((serial, call));
    }

    /// Removes an answer, and returns its call.
    pub(super) fn take(&self, serial: u32) -> Option<ReturnedAnswer> {
        let mut latest = self.0.lock();
        let at = latest.iter().position(|(written, _)| *written == serial)?;
        latest.remove(at).map(|(_, call)| call)
    }
}
