//! Releases memory because the system lacks it: what costs least comes first, and one kind at a time.
//!
//! The order is: copies of pages in the host's memory and encoded images, the pages of idle sessions, the weights. Whoever
//! watches the system calls again as long as memory is short.

use super::state::Worker;
use super::unload::{Cause, Unload};
use crate::journal;
use crate::runner::RunError;

impl Worker<'_> {
    /// Releases the first kind of memory that nobody needs.
    pub(super) fn relieve(&mut self) -> Result<(), RunError> {
        let copies = self.drop_copies();
        if copies > 0 {
            journal::memory_relieved("copies of pages and encoded images", copies);
            return Ok(());
        }
        if self.is_idle() {
            self.save_before_release()?;
        }
        let pages = self.runner.evict_idle()? + self.evict_drafts()?;
        if pages > 0 {
            // A session whose pages are gone is not saved.
            self.interrupt_saving();
            self.spare_since = None;
            self.publish_memory();
            journal::memory_relieved("pages of idle sessions", pages);
        } else if self.has_nothing_to_do() && self.queue.is_quiet() {
            self.unload = Some(Unload::of(Cause::Pressure));
        }
        Ok(())
    }

    /// Drops the copies of pages, and the encoded images that no request needs. Returns their bytes.
    fn drop_copies(&mut self) -> u64 {
        let before = self.host.bytes() + self.embeddings.bytes();
        self.host.shrink(0, None);
        self.shrink_embeddings_to(0);
        before - self.host.bytes() - self.embeddings.bytes()
    }
}
