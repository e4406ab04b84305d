//! The memory that tapes run in: allocated before a run, and saved when a run is preempted.
//!
//! It computes no values. The cache has its own memory.

use super::core::{Buffers, Core};
use super::memory_estimate::Lengths;
use super::recurrent::States;
use crate::tape::Tape;

impl Core {
    /// Allocates buffers for a tape, so that no run of it moves memory.
    pub(super) fn prepare(&mut self, tape: &Tape) {
        let states = self.states.as_ref().map(States::info);
        if let Some(info) = tape.state.filter(|info| states != Some(*info)) {
            self.states = Some(States::new(info));
        }
        let lengths = Lengths::of(&[tape]);
        let buffers = &mut self.buffers;
        buffers.activations.resize_with(
            lengths.activations.len().max(buffers.activations.len()),
            Vec::new,
        );
        for (buffer, length) in buffers.activations.iter_mut().zip(lengths.activations) {
            grow(buffer, length);
        }
        for saved in &mut buffers.saved {
            grow(saved, lengths.saved);
        }
        grow(&mut buffers.normed, lengths.normed);
        grow(&mut buffers.product, lengths.product);
        grow(&mut buffers.partials, lengths.partials);
    }

    pub(super) fn activation_bytes(&self) -> usize {
        let Buffers {
            activations,
            saved,
            normed,
            product,
            partials,
        } = &self.buffers;
        let others = normed.len() + product.len() + partials.len();
        4 * (activations.iter().chain(saved).map(Vec::len).sum::<usize>() + others)
    }

    /// Saves the buffers that a preempted prompt or step continues with.
    pub(super) fn save_carried(&mut self, tape: &Tape, place: usize) {
        let Buffers {
            activations, saved, ..
        } = &mut self.buffers;
        let mut rest = &mut saved[place][..];
        for buffer in tape.carried() {
            let length = tape.rows * tape.buffer(buffer).columns;
            let (to, others) = rest.split_at_mut(length);
            to.copy_from_slice(&activations[buffer.0][..length]);
            rest = others;
        }
    }

    /// Restores the buffers that a preempted prompt or step continues with.
    pub(super) fn restore_carried(&mut self, tape: &Tape, place: usize) {
        let Buffers {
            activations, saved, ..
        } = &mut self.buffers;
        let mut rest = &saved[place][..];
        for buffer in tape.carried() {
            let length = tape.rows * tape.buffer(buffer).columns;
            let (from, others) = rest.split_at(length);
            activations[buffer.0][..length].copy_from_slice(from);
            rest = others;
        }
    }

    /// The addresses of the buffers, in order.
    pub(super) fn addresses(&self) -> impl Iterator<Item = u64> {
        let activations = self.buffers.activations.iter();
        activations.map(|buffer| buffer.as_ptr().expose_provenance() as u64)
    }
}

fn grow(buffer: &mut Vec<f32>, len: usize) {
    if buffer.len() < len {
        buffer.resize(len, 0.0);
    }
}
