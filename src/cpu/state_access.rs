//! The recurrent states of slots, and their copies in pages of the cache.

use super::Cpu;
use crate::executor::{ExecuteError, StateError, States};

impl States for Cpu {
    fn has_state(&self, slot: usize) -> bool {
        let states = self.core.states.as_ref();
        states.is_none_or(|states| states.places().has(slot))
    }

    fn can_lose_state(&self, slot: usize) -> bool {
        let states = self.core.states.as_ref();
        states.is_some_and(|states| states.places().can_lose(slot)) && !self.is_launched(slot)
    }

    fn give_state(&mut self, slot: usize, from: Option<usize>) -> Result<(), StateError> {
        let is_launched = from.is_some_and(|from| self.is_launched(from));
        if let Some(states) = &mut self.core.states {
            states.places_mut().give(slot, from, is_launched)?;
        }
        Ok(())
    }

    fn leave_state(&mut self, slot: usize) {
        self.discard_ahead_of(slot);
        if let Some(states) = &mut self.core.states {
            states.places_mut().leave(slot);
        }
    }

    fn clear_state(&mut self, slot: usize) -> Result<(), ExecuteError> {
        // Operations take the state for zero at position 0.
        self.discard_state(slot);
        Ok(())
    }

    fn store_state(
        &mut self,
        slot: usize,
        position: usize,
        pages: &[usize],
    ) -> Result<(), ExecuteError> {
        let mut bytes = Vec::with_capacity(self.checkpoint_bytes());
        self.read_state(slot, position, &mut bytes)?;
        let (page_bytes, needed) = (self.kv.page_bytes(), bytes.len());
        if needed > pages.len() * page_bytes {
            let given = pages.len() * page_bytes;
            return Err(StateError::Checkpoint { given, needed }.into());
        }
        bytes.resize(pages.len() * page_bytes, 0);
        for (page, bytes) in pages.iter().zip(bytes.chunks_exact(page_bytes)) {
            self.core.cache.write_page(*page, bytes);
        }
        Ok(())
    }

    fn load_state(&mut self, slot: usize, pages: &[usize]) -> Result<(), ExecuteError> {
        let mut bytes = Vec::new();
        for page in pages {
            bytes.extend_from_slice(self.core.cache.page(*page));
        }
        bytes.truncate(self.checkpoint_bytes());
        self.write_state(slot, &bytes)?;
        Ok(())
    }
}

impl Cpu {
    /// Makes the spare states of prompts free that neither run in the active slot nor are preempted.
    pub(super) fn free_spares(&mut self) {
        let (slot, preempted) = (self.core.slot, &self.base.preempted);
        if let Some(states) = &mut self.core.states {
            let keeps = |other| other == slot || preempted.has(other);
            states.places_mut().discard_except(keeps);
        }
    }

    fn checkpoint_bytes(&self) -> usize {
        let states = self.core.states.as_ref();
        states.map_or(0, |states| states.info().checkpoint_bytes())
    }
}
