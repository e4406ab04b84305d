//! Which pages of the cache conversations have, and what is copied from one to another on the device itself.

use super::{Cuda, Error};

impl Cuda {
    /// From now on the positions of a conversation lie in these pages, and it has no others. Steps that were launched ahead
    /// have ended before: none of them writes to a page that has become another conversation's.
    ///
    /// # Errors
    /// If the device has failed.
    pub fn seat(&mut self, entry: usize, pages: &[usize]) -> Result<(), Error> {
        self.drain()?;
        let changed = self.pages.seat(entry, pages);
        let each = self.pages.each();
        for index in changed.clone() {
            let address = self.pages.address(entry, index)?;
            self.scratch.tables.set(entry * each + index, address);
        }
        self.conversations[entry].seated(changed);
        Ok(())
    }

    /// Copies what a page holds to another, before whatever is queued next.
    ///
    /// # Errors
    /// If the device has failed.
    pub fn copy_page(&mut self, from: usize, to: usize) -> Result<(), Error> {
        self.pages.copy(from, to, &mut self.stream)
    }
}
