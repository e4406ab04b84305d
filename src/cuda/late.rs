//! Masks that are still being made: each is sent as soon as it is there, and the device waits for none of them.

use std::time::Instant;

use super::{Cuda, Error};
use crate::sampler::Promise;

/// Each is told by its entry and the number of the token that it is for.
#[derive(Debug, Default)]
pub(super) struct Late(Vec<(usize, u32, Promise)>);

impl Late {
    pub(super) fn push(&mut self, entry: usize, number: u32, mask: Promise) {
        self.0.push((entry, number, mask));
    }

    /// Nobody wants the mask of an entry any more.
    pub(super) fn forget(&mut self, entry: usize) {
        self.0.retain(|(late, ..)| *late != entry);
    }
}

impl Cuda {
    /// The next token of an entry is to be bound by a mask, or by none from now on; returns the mask's number.
    pub(super) fn bind(&mut self, entry: usize, bound: bool) -> Option<u32> {
        self.late.forget(entry);
        // Steps that were launched ahead begin or end without it.
        if self.conversations[entry].is_guided() != bound {
            self.forget_launched_of(entry);
        }
        self.conversations[entry].guide(bound)
    }

    /// Sends masks as they are made, as long as the oldest step that was launched runs, or until then: in time for its choice, or
    /// for that of the next step, which repeats the row.
    pub(super) fn send_late(&mut self, until: Option<Instant>) -> Result<(), Error> {
        let next = self.sequence.wrapping_add(1);
        while !self.late.0.is_empty() && until.is_none_or(|until| Instant::now() < until) {
            let made = |(_, _, mask): &mut (usize, u32, Promise)| mask.now().is_some();
            for (entry, number, mask) in self.late.0.extract_if(.., made) {
                if let Some(mask) = mask.now().flatten() {
                    self.scratch.send_mask(entry, number, mask)?;
                }
            }
            if self.scratch.tokens.peek(next, 0).is_some() {
                break;
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Waits until the mask of an entry is where kernels find it.
    pub(super) fn settle_mask(&mut self, entry: usize) -> Result<(), Error> {
        let its = |(late, ..): &mut (usize, u32, Promise)| *late == entry;
        for (entry, number, mask) in self.late.0.extract_if(.., its) {
            if let Some(mask) = mask.wait() {
                self.scratch.send_mask(entry, number, mask)?;
            }
        }
        self.scratch.masks.0.settle(entry)
    }
}
