//! Releases memory of the cache that has not been used for a while to the system, between two steps.

use std::time::Instant;

use super::draft::Draft;
use super::state::Worker;
use crate::runner::RunError;

impl Worker<'_> {
    /// Releases memory that is due, and publishes the memory in use when it has changed. Pages change their owners only when
    /// requests begin and end, so most calls do nothing.
    pub(super) fn release_memory_if_due(&mut self) -> Result<(), RunError> {
        let due = self.spare_since.filter(|_| {
            let due = self.release_due();
            due.is_some_and(|due| due <= Instant::now())
        });
        if let Some((_, turns)) = due {
            // The tokens of a step that is ahead would be lost.
            self.settle()?;
            self.runner.give_back(turns)?;
            self.release_draft_memory()?;
            self.spare_since = None;
        }
        if self.runner.pages_moved() || due.is_some() {
            let now = (Instant::now(), self.runner.turns());
            let since = self.spare_since.unwrap_or(now);
            self.spare_since = self.runner.has_spare_memory().then_some(since);
            self.publish_memory();
        }
        Ok(())
    }

    /// Returns when memory is to be released, unless it is used before.
    pub(super) fn release_due(&self) -> Option<Instant> {
        let (since, _) = self.spare_since?;
        Some(since + self.runner.release_after())
    }

    pub(super) fn publish_memory(&self) {
        let of_draft = self.draft.as_ref().map(Draft::memory).unwrap_or_default();
        let kv = self.runner.memory().kv + of_draft.kv;
        if self.shared.memory().kv != kv {
            // The other figures include the vision tower, and stay as they are after a load.
            self.shared.publish(|status| status.memory.kv = kv);
        }
    }
}
