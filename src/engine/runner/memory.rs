//! The cache's memory, which comes before a turn that needs it, and goes when nobody has needed it for a while.

use std::time::Duration;

use super::{RunError, Runner};
use crate::engine::MemoryUse;
use crate::engine::admission::Budget;
use crate::kv::Owner;

impl Runner {
    /// Bytes that are allocated now.
    #[must_use]
    pub fn memory(&self) -> MemoryUse {
        MemoryUse {
            weights: self.weight_bytes,
            kv: (self.kv.allocated() * self.page_bytes()) as u64,
            activations: self.executor.activation_bytes(),
        }
    }

    /// All pages of the cache, those that nothing is kept in, and those that have memory.
    #[must_use]
    pub fn pages(&self) -> [usize; 3] {
        let (pages, free) = self.kv.pages();
        [pages, free, self.kv.allocated()]
    }

    /// Whether pages have changed hands since this was asked last.
    pub fn pages_moved(&mut self) -> bool {
        self.kv.take_moved()
    }

    /// How long memory rests before it is to be given back.
    #[must_use]
    pub fn rest(&self) -> Duration {
        self.settings.kv_rest
    }

    /// Turns that have begun so far.
    #[must_use]
    pub fn turns(&self) -> u64 {
        self.kv.turns()
    }

    /// Whether there is memory that could be given back, once it has rested.
    #[must_use]
    pub fn has_spare_memory(&self) -> bool {
        let spare = self.kv.spare(self.kept_pages(), self.kv.turns());
        !spare.is_empty()
    }

    /// Gives the memory back that no turn and no conversation needs, and that nobody has used after so many turns, but for that
    /// of the longest turn: whoever comes next waits for nobody's memory. No step is ahead.
    pub fn give_back(&mut self, rested: u64) -> Result<(), RunError> {
        let chunks = self.kv.release_memory(self.kept_pages(), rested);
        let given = self.executor.release(&chunks);
        self.lift_quarantine();
        Ok(given?)
    }

    /// Allocates what a turn of so many positions lacks. Where there is not enough for that, it begins in the place of what
    /// rests, or waits for others that run.
    pub(super) fn allocate(
        &mut self,
        owner: Option<Owner>,
        positions: usize,
    ) -> Result<(), RunError> {
        while let Some(chunk) = self.kv.lacks(owner, positions) {
            if !self.has_room_for(chunk) {
                self.kv.refuse();
                break;
            }
            match self.executor.allocate(chunk).map_err(RunError::from) {
                Ok(()) => self.kv.allocate(chunk),
                Err(error) if error.is_fatal() => return Err(error),
                Err(_) => self.kv.refuse(),
            }
        }
        Ok(())
    }

    /// Whether the system has memory for a chunk, and what is to be left to others: it would not refuse it, but end whoever it
    /// likes. A GPU's own says so itself.
    fn has_room_for(&self, chunk: usize) -> bool {
        let bytes = self.forward.kv.pages_of(chunk).len() * self.page_bytes();
        !self.uses_system_memory || self.has_system_memory(bytes as u64)
    }

    /// Whether the cache lies in the system's memory, rather than in a GPU's own.
    #[must_use]
    pub fn uses_system_memory(&self) -> bool {
        self.uses_system_memory
    }

    /// Whether the system has so many bytes besides what is to be left to others.
    #[must_use]
    pub fn has_system_memory(&self, bytes: u64) -> bool {
        Budget::of_system(&self.settings).is_ok_and(|budget| budget.holds(bytes))
    }

    /// Pages of the longest turn.
    fn kept_pages(&self) -> usize {
        self.forward.kv.pages_each().min(self.forward.kv.pages)
    }
}
