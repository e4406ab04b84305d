//! The begin and end of each operation of a run by the host's clock. The thread that runs a tape waits for each
//! operation.

use std::time::Instant;

use crate::executor::Span;

/// The times of the operations of a tape.
#[derive(Clone, Debug)]
pub(super) struct Timestamps {
    since: Instant,
    /// In nanoseconds since `begun`; `None` for an operation that has not run.
    spans: Vec<Option<Span>>,
}

impl Timestamps {
    pub(super) fn new(operations: usize) -> Self {
        Self {
            since: Instant::now(),
            spans: vec![None; operations],
        }
    }

    /// Nanoseconds since the start.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Notes the end of an operation. An operation without an element belongs to another tape.
    pub(super) fn ended(&mut self, operation: usize, begun: u64) {
        let now = self.now();
        if let Some(span) = self.spans.get_mut(operation) {
            *span = Some((begun, now));
        }
    }

    /// Returns the times since the last call.
    pub(super) fn take(&mut self) -> Vec<Option<Span>> {
        let unset = vec![None; self.spans.len()];
        std::mem::replace(&mut self.spans, unset)
    }
}
