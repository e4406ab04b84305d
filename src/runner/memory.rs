//! Allocates memory of the cache for requests that need it, and releases memory that is unused for a while.

use std::time::Duration;

use super::Runner;
use super::error::RunError;
use super::system_memory::MemoryUse;
use crate::kv::{Layout, Owner};

impl Runner {
    /// Returns the bytes that are allocated.
    #[must_use]
    pub fn memory(&self) -> MemoryUse {
        MemoryUse {
            weights: self.weight_bytes,
            kv: (self.kv.allocated() * self.page_bytes()) as u64,
            states: self.forward.state.map_or(0, |state| state.bytes()) as u64,
            activations: self.executor.activation_bytes(),
        }
    }

    /// Returns the numbers of pages: all, free, with memory.
    #[must_use]
    pub fn pages(&self) -> [usize; 3] {
        let (pages, free) = self.kv.pages();
        [pages, free, self.kv.allocated()]
    }

    /// Returns the number of sequences that lost their pages to others since the model was loaded.
    #[must_use]
    pub fn evictions(&self) -> u64 {
        self.kv.evictions()
    }

    /// Returns how a request uses pages.
    #[must_use]
    pub fn layout(&self) -> Layout {
        super::layout(&self.forward)
    }

    /// Whether pages have changed their owners since the last call.
    pub fn pages_moved(&mut self) -> bool {
        self.kv.take_moved()
    }

    /// Returns how long memory stays unused before it is released.
    #[must_use]
    pub fn release_after(&self) -> Duration {
        self.release_after
    }

    /// Returns the number of requests that have begun.
    #[must_use]
    pub fn turns(&self) -> u64 {
        self.kv.turns()
    }

    /// Whether there is unused memory that can be released.
    #[must_use]
    pub fn has_spare_memory(&self) -> bool {
        let spare = self.kv.spare(self.kept_pages(), self.kv.turns());
        !spare.is_empty()
    }

    /// Releases memory that no request has used since the first `turns` requests. Memory for one request of full length stays,
    /// so that the next request does not wait for memory. No step may be ahead.
    pub fn give_back(&mut self, turns: u64) -> Result<(), RunError> {
        let chunks = self.kv.release_memory(self.kept_pages(), turns);
        let given = self.executor.release(&chunks);
        self.lift_quarantine();
        Ok(given?)
    }

    /// Evicts all sequences that no turn needs, and releases the memory of their pages. Returns the released bytes. No step
    /// may be ahead.
    ///
    /// # Errors
    /// If the device has failed.
    pub fn evict_idle(&mut self) -> Result<u64, RunError> {
        let before = self.kv.allocated();
        self.kv.evict_idle();
        let chunks = self.kv.release_memory(0, self.kv.turns());
        let released = self.executor.release(&chunks);
        self.lift_quarantine();
        released?;
        Ok(((before - self.kv.allocated()) * self.page_bytes()) as u64)
    }

    /// Allocates the memory that a request of `positions` positions lacks. If there is not enough, the request takes pages of
    /// idle sessions, or waits for active ones.
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

    /// Whether the system has memory for a chunk besides the reserve. The system does not refuse memory, but kills processes. A
    /// GPU refuses by itself.
    fn has_room_for(&self, chunk: usize) -> bool {
        let bytes = self.forward.kv.pages_of(chunk).len() * self.page_bytes();
        !self.uses_system_memory || self.has_system_memory(bytes as u64)
    }

    /// Whether the cache is in the system's memory, rather than in a GPU's own.
    #[must_use]
    pub fn uses_system_memory(&self) -> bool {
        self.uses_system_memory
    }

    /// Whether the system has `bytes` besides the reserve for other programs.
    #[must_use]
    pub fn has_system_memory(&self, bytes: u64) -> bool {
        self.system_memory.has(bytes)
    }

    /// Returns the pages of a request of full length.
    fn kept_pages(&self) -> usize {
        self.forward.kv.pages_each().min(self.forward.kv.pages)
    }
}
