//! Sends masks that are finished after the launch of their step.

use std::time::Instant;

use super::Cuda;
use crate::device::Error;
use crate::sampler::Promise;

impl Cuda {
    /// Sets whether the next token of a slot needs a mask. Returns the number of that mask.
    pub(super) fn bind(&mut self, slot: usize, bound: bool) -> Option<u32> {
        self.late.discard(slot);
        // Steps in flight were launched with the previous setting.
        if self.conversations[slot].is_guided() != bound {
            self.discard_in_flight_of(slot);
        }
        self.conversations[slot].guide(bound)
    }

    /// Sends masks as they are finished, while the oldest step in flight runs, but not longer than `until`. A mask that is late
    /// for this step serves the next one, which repeats the row.
    pub(super) fn send_late(&mut self, until: Option<Instant>) -> Result<(), Error> {
        let next = self.sequence.wrapping_add(1);
        while !self.late.0.is_empty() && until.is_none_or(|until| Instant::now() < until) {
            let finished = |(_, _, mask): &mut (usize, u32, Promise)| mask.now().is_some();
            for (slot, number, mask) in self.late.0.extract_if(.., finished) {
                if let Some(mask) = mask.now().flatten() {
                    self.scratch.send_mask(slot, number, mask)?;
                }
            }
            if self.scratch.tokens.peek(next, 0).is_some() {
                break;
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Waits until the mask of a slot is in device memory.
    pub(super) fn settle_mask(&mut self, slot: usize) -> Result<(), Error> {
        let its = |(late, ..): &mut (usize, u32, Promise)| *late == slot;
        for (slot, number, mask) in self.late.0.extract_if(.., its) {
            if let Some(mask) = mask.wait() {
                self.scratch.send_mask(slot, number, mask)?;
            }
        }
        self.scratch.masks.0.settle(slot)
    }
}
