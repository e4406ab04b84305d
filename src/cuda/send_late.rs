//! Sends masks as they are finished, most of them after the launch of their step.

use std::time::Instant;

use super::Cuda;
use super::late::LateMask;
use crate::device::Error;
use crate::sampler::Promise;

impl Cuda {
    /// Sets whether the next token of a slot needs a mask. Returns the number of that mask.
    pub(super) fn bind(&mut self, slot: usize, bound: bool) -> Option<u32> {
        self.late.discard(slot);
        self.conversations[slot].guess_masks.clear();
        // Steps in flight were launched with the previous setting.
        if self.conversations[slot].is_guided() != bound {
            self.discard_in_flight_of(slot);
        }
        self.conversations[slot].guide(bound)
    }

    /// Sets the masks after the guesses of a slot's next step, and sends those that are finished.
    pub(super) fn bind_guesses(&mut self, slot: usize, masks: Vec<Promise>) -> Result<(), Error> {
        let slots = self.kv.slots;
        let pushed = masks
            .into_iter()
            .map_while(|mask| self.late.push_guess(slot, slots, mask));
        self.conversations[slot].guess_masks = pushed.collect();
        self.send_finished()
    }

    /// Discards the masks after guesses of a step of these slots, which has run.
    pub(super) fn discard_guesses(&mut self, slots: &[usize]) {
        self.late.discard_guesses();
        for slot in slots {
            self.conversations[*slot].guess_masks.clear();
        }
    }

    /// Sends masks as they are finished, while the oldest step in flight runs, but not longer than `until`. A mask that is late
    /// for this step serves the next one, which repeats the row.
    pub(super) fn send_late(&mut self, until: Option<Instant>) -> Result<(), Error> {
        let next = self.sequence.wrapping_add(1);
        while !self.late.masks.is_empty() && until.is_none_or(|until| Instant::now() < until) {
            self.send_finished()?;
            if self.scratch.tokens.peek(next, 0).is_some() {
                break;
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Sends the masks that are finished.
    fn send_finished(&mut self) -> Result<(), Error> {
        let finished = |late: &mut LateMask| late.mask.now().is_some();
        for late in self.late.masks.extract_if(.., finished) {
            if let Some(mask) = late.mask.now().flatten() {
                self.scratch.send_mask(late.index, late.number, mask)?;
            }
        }
        Ok(())
    }

    /// Waits until the mask of a slot's next token is in device memory.
    pub(super) fn settle_mask(&mut self, slot: usize) -> Result<(), Error> {
        let its = |late: &mut LateMask| late.index == slot;
        for late in self.late.masks.extract_if(.., its) {
            if let Some(mask) = late.mask.wait() {
                self.scratch.send_mask(late.index, late.number, mask)?;
            }
        }
        self.scratch.masks.0.settle(slot)
    }
}
