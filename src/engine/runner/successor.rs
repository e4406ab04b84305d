//! A runner in the place of another, which has come to its end.

use std::thread;

use super::{RunError, Runner};
use crate::kv::{Copied, PAGE};
use crate::tape::KvInfo;

impl Runner {
    /// Takes the place of another: its conversations go on here, read anew, and what was counted goes on too. Called on the
    /// thread that will run this one, when no step is ahead.
    ///
    /// # Errors
    /// If the device cannot be used from this thread; nothing has changed then.
    pub fn succeed(&mut self, before: &mut Self) -> Result<(), RunError> {
        self.take_place(before, false).map(drop)
    }

    /// The same where the model's files, and whatever else its cache depends on, are those from before: what pages hold comes along,
    /// with the bits that it has, if the same computes it. Returns whether it does.
    pub fn inherit(&mut self, before: &mut Self) -> Result<bool, RunError> {
        let is_alike = self.executor.identity() == before.executor.identity()
            && self.page_bytes() == before.page_bytes();
        self.take_place(before, is_alike)
    }

    fn take_place(&mut self, before: &mut Self, keeps: bool) -> Result<bool, RunError> {
        self.executor.attach_thread()?;
        self.executor
            .graphs_mut()
            .succeed(before.executor.graphs_mut());
        // What was reused by another rule may not have the bits of this one's.
        let reuse = self.kv.reuse();
        std::mem::swap(&mut self.kv, &mut before.kv);
        let keeps = keeps && reuse == self.kv.reuse();
        self.kv.set_reuse(reuse);
        let KvInfo {
            slots,
            pages,
            chunk,
            ..
        } = self.forward.kv;
        if keeps {
            let (change, copies) = self.kv.move_to(slots, (pages, chunk));
            if self.bring(before, &copies).is_ok_and(|brought| brought) {
                self.changed(change);
                return Ok(true);
            }
            // What could not be copied is read again.
            self.executor.attach_thread()?;
        }
        let change = self.kv.resize(slots, (pages, chunk));
        self.changed(change);
        Ok(false)
    }

    /// Copies what pages hold, by the host's memory; false where one of both takes none.
    fn bring(&mut self, before: &mut Self, copies: &[Copied]) -> Result<bool, RunError> {
        before.executor.attach_thread()?;
        before.executor.discard_pages();
        for Copied { from, to } in copies {
            before.executor.attach_thread()?;
            if !before.executor.send_page(*from, PAGE)? {
                return Ok(false);
            }
            let bytes = loop {
                if let Some(bytes) = before.executor.take_page()? {
                    break bytes;
                }
                thread::yield_now();
            };
            self.executor.attach_thread()?;
            while !self.executor.write_page(*to, &bytes)? {
                thread::yield_now();
            }
        }
        self.executor.finish()?;
        Ok(true)
    }
}
