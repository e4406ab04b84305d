//! What one conversation takes over from another's cache, on the device itself.

use super::{Cuda, Error};

impl Cuda {
    /// Copies the pages with the first positions of a region to another, before whatever is queued next.
    ///
    /// # Errors
    /// If the device has failed.
    pub fn copy(&mut self, from: usize, to: usize, positions: usize) -> Result<(), Error> {
        self.pages.copy(from, to, positions, &mut self.stream)
    }
}
