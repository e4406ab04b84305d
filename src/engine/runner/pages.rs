//! What pages of the cache hold, on its way to the disk and back.

use super::{RunError, Runner};
use crate::kv::{Family, Owner, PAGE, Resting};
use crate::sampler::Parameters;

impl Runner {
    /// Bytes of a page.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        self.forward.kv.page_bytes()
    }

    /// What the cache holds of a conversation that no turn changes.
    #[must_use]
    pub fn resting(&self, owner: Owner) -> Option<Resting<'_>> {
        self.kv.resting(owner)
    }

    /// What a page holds of its first positions.
    ///
    /// # Errors
    /// If the device has failed.
    pub fn read_page(&mut self, page: usize, positions: usize) -> Result<Vec<u8>, RunError> {
        let mut bytes = vec![0; self.page_bytes()];
        let positions = positions.min(PAGE);
        self.executor.read_page(page, positions, &mut bytes)?;
        Ok(bytes)
    }

    /// Has a page of the turn in an entry, which no other has, hold what `read_page` gave.
    ///
    /// # Errors
    /// If the device has failed.
    pub fn write_page(&mut self, entry: usize, index: usize, bytes: &[u8]) -> Result<(), RunError> {
        let pages = self.kv.pages_of(entry);
        match pages
            .get(index)
            .filter(|_| bytes.len() == self.page_bytes())
        {
            Some(page) => Ok(self.executor.write_page(*page, bytes)?),
            None => Ok(()),
        }
    }

    /// The pages of the turn in an entry hold these tokens of its prompt now. It goes on from there as `join` left it, and what
    /// may come next is to be said anew.
    ///
    /// # Errors
    /// If the device has failed.
    pub fn restore(
        &mut self,
        entry: usize,
        tokens: &[(u32, Family)],
        parameters: Parameters,
        prompt: &[u32],
    ) -> Result<(), RunError> {
        self.turn_to(entry);
        let change = self.kv.restore(entry, tokens);
        self.changed(change);
        Ok(self
            .executor
            .begin((entry, tokens.len()), parameters, prompt)?)
    }

    /// What of past turns serves others.
    #[must_use]
    pub fn reuse(&self) -> crate::kv::Reuse {
        self.kv.reuse()
    }
}
