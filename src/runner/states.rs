//! Gives slots the recurrent states that they lack, before they run: there may be fewer states than slots.
//!
//! An idle slot loses its state first, the least recently used one before others: its next turn begins from a checkpoint
//! in any case. Then a turn between two runs loses its own. It is stored in pages of the turn, which continues from there
//! with the same bits. Prompts in progress and steps in flight keep theirs.

use super::Runner;
use super::error::RunError;
use super::state_use::LostStates;
use crate::executor::ExecuteError;
use crate::kv::StateStart;

impl Runner {
    /// Returns the number of recurrent states that slots have lost to others.
    #[must_use]
    pub fn lost_states(&self) -> LostStates {
        self.state_use.lost
    }

    /// Returns an error unless the slots have their pages. Gives them the recurrent states that they lack, before they run.
    pub(super) fn seat(&mut self, slots: &[usize]) -> Result<(), RunError> {
        self.check_slots(slots)?;
        self.bring_states(slots)
    }

    /// Returns an error unless the slots have their pages, which the next run writes to.
    pub(super) fn check_slots(&self, slots: &[usize]) -> Result<(), RunError> {
        match slots.iter().find(|slot| !self.kv.is_seated(**slot)) {
            Some(slot) => Err(RunError::Unseated { slot: *slot }),
            None => Ok(()),
        }
    }

    /// Whether slots have the states that a step launched behind another one needs.
    pub(super) fn have_states(&self, slots: &[usize]) -> bool {
        slots.iter().all(|slot| self.executor.has_state(*slot))
    }

    /// Gives slots the states that they lack, before they run from their positions on.
    ///
    /// # Errors
    /// If no slot can lose its state, or a copy fails. A slot without its state cannot run.
    fn bring_states(&mut self, slots: &[usize]) -> Result<(), RunError> {
        if self.forward.state.is_none() {
            return Ok(());
        }
        self.state_use.run(slots);
        for slot in slots.iter().copied() {
            if self.executor.has_state(slot) {
                continue;
            }
            let position = self.executor.state_of(slot).position;
            let stored = self.kv.state_after(slot, position);
            let stored = stored.or_else(|| self.stored_for_later(slot));
            let stored = stored.ok_or(RunError::Unseated { slot })?;
            self.take_state(slot, slots)?;
            self.set_state(slot, &stored)?;
        }
        Ok(())
    }

    /// Sets the state of a slot, which gets one if it has none. If that fails, the slot has none.
    pub(super) fn set_state(&mut self, slot: usize, start: &StateStart) -> Result<(), RunError> {
        self.state_use.run(&[slot]);
        self.take_state(slot, &[slot])?;
        let set = match start {
            StateStart::Empty => self.executor.clear_state(slot),
            StateStart::Pieces(pieces) => self.executor.load_state(slot, pieces),
        };
        // Its state may be that of another conversation at the same position.
        Ok(set.inspect_err(|_| self.executor.leave_state(slot))?)
    }

    /// Gives a slot without a state a free one, or that of another slot, but of none of `busy`.
    fn take_state(&mut self, slot: usize, busy: &[usize]) -> Result<(), RunError> {
        if self.executor.has_state(slot) || self.executor.give_state(slot, None).is_ok() {
            return Ok(());
        }
        let mut loses = self.loses_state(busy);
        if loses.is_none() {
            // A step that was launched ahead may need all of them. Its tokens are dropped.
            self.executor.discard_ahead()?;
            self.lift_quarantine();
            loses = self.loses_state(busy);
        }
        if let Some(loses) = loses {
            self.store_for_later(loses)?;
        }
        Ok(self
            .executor
            .give_state(slot, loses)
            .map_err(ExecuteError::from)?)
    }

    /// The slot that loses its state first, if any can.
    fn loses_state(&self, busy: &[usize]) -> Option<usize> {
        let may = |slot: &usize| {
            !busy.contains(slot)
                && !self.kv.is_in_flight(*slot)
                && self.executor.can_lose_state(*slot)
        };
        let slots = (0..self.forward.kv.slots).filter(may);
        self.state_use
            .first(slots.map(|slot| (slot, self.kv.is_idle(slot))))
    }

    /// Stores the state of a slot that loses it, if the slot's turn continues and no checkpoint has the state.
    fn store_for_later(&mut self, slot: usize) -> Result<(), RunError> {
        if self.kv.is_idle(slot) {
            self.state_use.lost.idle += 1;
            return Ok(());
        }
        self.state_use.lost.continued += 1;
        let position = self.executor.state_of(slot).position;
        let pieces = self.kv.pieces_of_turn(slot);
        // A turn without these pages has lost others, too, and cannot run.
        if self.kv.state_after(slot, position).is_none() && !pieces.is_empty() {
            self.executor.store_state(slot, position, pieces)?;
        }
        Ok(())
    }

    /// Where `store_for_later` has stored the state of a turn that no checkpoint has.
    fn stored_for_later(&self, slot: usize) -> Option<StateStart> {
        let pieces = self.kv.pieces_of_turn(slot);
        let has = !self.kv.is_idle(slot) && !pieces.is_empty();
        has.then(|| StateStart::Pieces(pieces.to_vec()))
    }

    /// Stores the state at the end of the turn in a slot, unless a checkpoint has it. Returns whether the pages for it hold
    /// it now.
    pub(super) fn store_end(&mut self, slot: usize) -> bool {
        let position = self.kv.len_of(slot);
        let Some(pieces) = self.kv.end_pieces(slot) else {
            return false;
        };
        if self.executor.has_state(slot) {
            return self.executor.store_state(slot, position, pieces).is_ok();
        }
        // A turn that has lost its state before its first token has stored none.
        position > 0 && self.executor.state_of(slot).position == position && !pieces.is_empty()
    }
}
