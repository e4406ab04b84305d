//! The recurrent states of slots, and their copies in pages of the cache. Copies are queued on the stream.

use super::Cuda;
use super::queue::LaunchQueue;
use super::recurrent::CheckpointPage;
use crate::executor::{ExecuteError, StateError, States};

impl States for Cuda {
    fn has_state(&self, slot: usize) -> bool {
        let states = self.states.as_ref();
        states.is_none_or(|states| states.places.has(slot))
    }

    fn can_lose_state(&self, slot: usize) -> bool {
        let states = self.states.as_ref();
        states.is_some_and(|states| states.places.can_lose(slot)) && !self.is_launched(slot)
    }

    fn give_state(&mut self, slot: usize, from: Option<usize>) -> Result<(), StateError> {
        if self.has_state(slot) {
            return Ok(());
        }
        let is_launched = from.is_some_and(|from| self.is_launched(from));
        if let Some(states) = &mut self.states {
            // Discarded steps of the other slot end before later launches begin.
            states.places.give(slot, from, is_launched)?;
        }
        for slot in [Some(slot), from].into_iter().flatten() {
            self.send_state(slot);
        }
        Ok(())
    }

    fn leave_state(&mut self, slot: usize) {
        self.discard_in_flight_of(slot);
        if let Some(states) = &mut self.states {
            states.places.leave(slot);
        }
        self.send_state(slot);
    }

    fn clear_state(&mut self, slot: usize) -> Result<(), ExecuteError> {
        // Kernels take the state for zero at position 0.
        if let Some(states) = &mut self.states {
            states.places.discard(slot);
        }
        Ok(())
    }

    fn store_state(
        &mut self,
        slot: usize,
        position: usize,
        pages: &[usize],
    ) -> Result<(), ExecuteError> {
        self.copy_state(slot, Some(position), pages)
    }

    fn load_state(&mut self, slot: usize, pages: &[usize]) -> Result<(), ExecuteError> {
        self.discard_in_flight_of(slot);
        if let Some(states) = &mut self.states {
            states.places.discard(slot);
        }
        self.copy_state(slot, None, pages)
    }
}

impl Cuda {
    /// Stores the state of a slot at a position in pages, or loads it from them.
    fn copy_state(
        &mut self,
        slot: usize,
        stored: Option<usize>,
        pages: &[usize],
    ) -> Result<(), ExecuteError> {
        let Some(states) = &self.states else {
            return Ok(());
        };
        let each = self.kv.page_bytes();
        states.fits(pages.len() * each)?;
        let (info, address) = (states.info, states.of_slot(slot)?);
        let addresses: Vec<u64> = pages
            .iter()
            .map(|page| self.pages.address_of(*page))
            .collect::<Result<_, _>>()?;
        let (work, stream, ..) = self.work();
        let mut queue = LaunchQueue::launching(stream, None);
        if let Some(position) = stored {
            work.commit(info, Some((address, position)), &mut queue)?;
        }
        for (index, page) in addresses.iter().enumerate() {
            let page = CheckpointPage {
                page: *page,
                first_page: addresses[0],
                before: index * each,
                bytes: each,
            };
            work.copy_state(info, (address, stored), page, &mut queue)?;
        }
        Ok(())
    }

    /// Gives the prompt of a slot that ends at a position a spare state to write, and returns its number.
    pub(super) fn reserve_state(&mut self, slot: usize, end: usize) -> Result<u32, ExecuteError> {
        let preempted = &self.base.preempted;
        let Some(states) = &mut self.states else {
            return Ok(0);
        };
        // No other prompt runs or will be continued.
        states
            .places
            .discard_except(|other| other == slot || preempted.has(other));
        Ok(super::narrow(states.places.reserve(slot, end)?))
    }

    /// Makes the state that a slot's finished prompt wrote the slot's state.
    pub(super) fn swap_state(&mut self, slot: usize) {
        if let Some(states) = &mut self.states
            && states.places.swap(slot).is_some()
        {
            self.send_state(slot);
        }
    }

    /// Sends the number of a slot's state with the next command.
    fn send_state(&mut self, slot: usize) {
        if let Some(states) = &self.states {
            self.conversations[slot].set_state(states.number(slot));
        }
    }
}
