//! Masks that are still being computed. Each is sent as soon as it is finished; the device does not wait for them.

use crate::sampler::Promise;

/// Each mask has a slot and the number of the token that it is for.
#[derive(Debug, Default)]
pub(super) struct Late(pub(super) Vec<(usize, u32, Promise)>);

impl Late {
    pub(super) fn push(&mut self, slot: usize, number: u32, mask: Promise) {
        self.0.push((slot, number, mask));
    }

    pub(super) fn discard(&mut self, slot: usize) {
        self.0.retain(|(late, ..)| *late != slot);
    }
}
