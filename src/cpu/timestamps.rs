//! When each operation of a run began and ended, by the host's clock: here the thread that runs a tape waits for each.

use std::time::Instant;

use crate::tape::Span;

/// The times of a tape of so many operations.
#[derive(Clone, Debug)]
pub(super) struct Timestamps {
    since: Instant,
    /// Nanoseconds since then; `None` if it has not run.
    spans: Vec<Option<Span>>,
}

impl Timestamps {
    pub(super) fn new(operations: usize) -> Self {
        Self {
            since: Instant::now(),
            spans: vec![None; operations],
        }
    }

    /// Nanoseconds.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// An operation that began then has ended. One that there is no room for is of another tape.
    pub(super) fn ended(&mut self, operation: usize, begun: u64) {
        let now = self.now();
        if let Some(span) = self.spans.get_mut(operation) {
            *span = Some((begun, now));
        }
    }

    /// The times since the last call.
    pub(super) fn take(&mut self) -> Vec<Option<Span>> {
        let unset = vec![None; self.spans.len()];
        std::mem::replace(&mut self.spans, unset)
    }
}
