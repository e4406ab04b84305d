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

    /// Has what a page holds of its first positions read; false where it is to be asked again.
    pub fn send_page(&mut self, page: usize, positions: usize) -> Result<bool, RunError> {
        Ok(self.executor.send_page(page, positions.min(PAGE))?)
    }

    /// The oldest page that was sent, once it is there.
    pub fn take_sent(&mut self) -> Result<Option<Vec<u8>>, RunError> {
        Ok(self.executor.take_page()?)
    }

    /// What was sent and not taken is nobody's any more.
    pub fn forget_sent(&mut self) {
        self.executor.discard_pages();
    }

    /// Has a page of the turn in an entry, which no other has, hold what was taken of one; false where it is to be asked again.
    pub fn write_page(
        &mut self,
        entry: usize,
        index: usize,
        bytes: &[u8],
    ) -> Result<bool, RunError> {
        let pages = self.kv.pages_of(entry);
        match pages
            .get(index)
            .filter(|_| bytes.len() == self.page_bytes())
        {
            Some(page) => Ok(self.executor.write_page(*page, bytes)?),
            None => Ok(true),
        }
    }

    /// The pages of the turn in an entry hold these tokens of its prompt now. It goes on from there as `join` left it, and what
    /// may come next is to be said anew.
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
