//! Copies pages of the cache to the host, and back.

use super::Runner;
use super::error::RunError;
use crate::kv::{Family, Owner, PAGE, PagePlace, Resting, StateStart};
use crate::sampler::Parameters;

impl Runner {
    /// Returns the bytes of a page.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        self.forward.kv.page_bytes()
    }

    /// Returns what the cache holds of an idle session.
    #[must_use]
    pub fn resting(&self, owner: Owner) -> Option<Resting<'_>> {
        self.kv.resting(owner)
    }

    /// Starts copying a page of a sequence with a number of positions to the host. Returns false if the device is busy.
    pub fn send_page(
        &mut self,
        (place, page): (PagePlace, usize),
        positions: usize,
    ) -> Result<bool, RunError> {
        let positions = positions.saturating_sub(place.index * PAGE).min(PAGE);
        Ok(self.executor.send_page(page, place.group, positions)?)
    }

    /// Returns the oldest page whose copy was started, once it has arrived.
    pub fn take_sent(&mut self) -> Result<Option<Vec<u8>>, RunError> {
        Ok(self.executor.take_page()?)
    }

    /// Drops the copies that were started, but not taken.
    pub fn forget_sent(&mut self) {
        self.executor.discard_pages();
    }

    /// Writes a copied page to a page of a slot, which no other slot shares. Returns false if the device is busy.
    pub fn write_page(
        &mut self,
        slot: usize,
        place: PagePlace,
        bytes: &[u8],
    ) -> Result<bool, RunError> {
        let page = self.kv.page_at(slot, place);
        match page.filter(|_| bytes.len() == self.page_bytes()) {
            Some(page) => Ok(self.executor.write_page(page, bytes)?),
            None => Ok(true),
        }
    }

    /// Notes that the pages of a slot hold these tokens of its prompt. The slot continues after them, and needs its mask again.
    pub fn restore(
        &mut self,
        slot: usize,
        tokens: &[(u32, Family)],
        parameters: Parameters,
        prompt: &[u32],
    ) -> Result<(), RunError> {
        self.turn_to(slot);
        let change = self.kv.restore(slot, tokens);
        self.changed(change);
        // Other turns may get the pages that it has dropped, or their memory may be released while this turn runs.
        let tables = self.kv.tables_of(slot);
        self.executor.set_pages(slot, &tables)?;
        self.begin_slot((slot, tokens.len()), parameters, prompt)?;
        self.settle_rotation(slot)?;
        if self.forward.state.is_some() {
            let pieces = self.kv.pieces_of_turn(slot).to_vec();
            self.set_state(slot, &StateStart::Pieces(pieces))?;
        }
        Ok(())
    }

    /// Returns which pages of earlier requests a new one may share.
    #[must_use]
    pub fn reuse(&self) -> crate::kv::Reuse {
        self.kv.reuse()
    }
}
