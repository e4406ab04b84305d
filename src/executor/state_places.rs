//! Which state of a pool each slot has, and which one its prompt writes.
//!
//! This module does not know where states lie.

use super::step::StateError;

/// The states of a pool by number. A prompt writes a spare one, which then becomes its slot's.
#[derive(Clone, Debug)]
pub struct StatePlaces {
    of_slots: Vec<usize>,
    /// The state that the prompt of each slot writes, and the position that it will have.
    written: Vec<Option<(usize, usize)>>,
    /// The states that belong to no slot and that no prompt writes.
    free: Vec<usize>,
    spares: usize,
}

impl StatePlaces {
    #[must_use]
    pub fn new(slots: usize, spares: usize) -> Self {
        Self {
            of_slots: (0..slots).collect(),
            written: vec![None; slots],
            free: (slots..slots + spares).rev().collect(),
            spares,
        }
    }

    /// The state of a slot.
    #[must_use]
    pub fn own(&self, slot: usize) -> usize {
        self.of_slots[slot]
    }

    /// The state that a slot's prompt writes, and the position that it will have.
    #[must_use]
    pub fn written(&self, slot: usize) -> Option<(usize, usize)> {
        self.written[slot]
    }

    /// Gives the prompt of a slot that ends at a position a spare state to write, or the one that it had.
    ///
    /// # Errors
    /// If all spare states are in use.
    pub fn reserve(&mut self, slot: usize, end: usize) -> Result<usize, StateError> {
        let spares = self.spares;
        let had = self.written[slot].map(|(state, _)| state);
        let state = had.or_else(|| self.free.pop());
        let state = state.ok_or(StateError::Spares { spares })?;
        self.written[slot] = Some((state, end));
        Ok(state)
    }

    /// Makes the state that a slot's prompt wrote the slot's state, and returns it.
    pub fn swap(&mut self, slot: usize) -> Option<usize> {
        let (written, _) = self.written[slot].take()?;
        let own = std::mem::replace(&mut self.of_slots[slot], written);
        self.free.push(own);
        Some(written)
    }

    /// Discards the state that a slot's prompt wrote.
    pub fn discard(&mut self, slot: usize) {
        self.free
            .extend(self.written[slot].take().map(|(state, _)| state));
    }

    /// Discards the states that prompts wrote, except those of the slots that `keeps` names.
    pub fn discard_except(&mut self, keeps: impl Fn(usize) -> bool) {
        for slot in 0..self.written.len() {
            if !keeps(slot) {
                self.discard(slot);
            }
        }
    }
}
