//! Memory of the cache that nobody has needed for a while goes back to the system, between two steps.

use std::time::Instant;

use super::Worker;
use crate::runner::RunError;

impl Worker<'_> {
    /// Gives back what has rested long enough; tells what the cache takes once that has changed. Pages change hands when turns
    /// begin and end, so at most steps there is nothing to look at.
    pub(super) fn look_after_memory(&mut self) -> Result<(), RunError> {
        let rested = self.spare_since.filter(|_| {
            let due = self.spare_due();
            due.is_some_and(|due| due <= Instant::now())
        });
        if let Some((_, turns)) = rested {
            // Tokens of a step that is ahead would be lost.
            self.settle()?;
            self.runner.give_back(turns)?;
            self.spare_since = None;
        }
        if self.runner.pages_moved() || rested.is_some() {
            let now = (Instant::now(), self.runner.turns());
            let since = self.spare_since.unwrap_or(now);
            // What was used meanwhile rests from now on.
            self.spare_since = self.runner.has_spare_memory().then_some(since);
            self.tell_memory();
        }
        Ok(())
    }

    /// When memory is to be given back, if nobody needs it before.
    pub(super) fn spare_due(&self) -> Option<Instant> {
        let (since, _) = self.spare_since?;
        Some(since + self.runner.rest())
    }

    fn tell_memory(&self) {
        let memory = self.runner.memory();
        if self.inbox.told_memory().kv != memory.kv {
            self.inbox.publish(|status| status.memory = memory);
        }
    }
}
