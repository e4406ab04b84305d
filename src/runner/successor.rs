//! Replaces a runner by another, which takes over its sessions.

use std::thread;

use super::Runner;
use super::error::RunError;
use crate::kv::{Copied, PAGE};
use crate::tape::KvInfo;

impl Runner {
    /// Takes over the sessions and counters of another runner. Their prompts must be prefilled again. Must be called on the
    /// thread that will use this runner, while no step is ahead.
    ///
    /// # Errors
    /// If the device cannot be used from this thread. Then nothing has changed.
    pub fn succeed(&mut self, before: &mut Self) -> Result<(), RunError> {
        self.take_place(before, false).map(drop)
    }

    /// Takes over the sessions and counters of a runner with the same model and settings. If both executors compute the same
    /// bits, the pages are copied. Returns whether they were.
    pub fn inherit(&mut self, before: &mut Self) -> Result<bool, RunError> {
        let is_alike = self.executor.identity() == before.executor.identity()
            && self.page_bytes() == before.page_bytes()
            && self.forward.kv.kinds == before.forward.kv.kinds
            && self.shape().angles == before.shape().angles;
        self.take_place(before, is_alike)
    }

    fn take_place(&mut self, before: &mut Self, keeps: bool) -> Result<bool, RunError> {
        self.executor.attach_thread()?;
        // Rows of images in the cache keep their numbers.
        self.images.next = before.images.next;
        self.executor
            .graphs_mut()
            .succeed(before.executor.graphs_mut());
        self.state_use.lost = before.state_use.lost;
        // Pages that were shared by another rule may have other bits.
        let reuse = self.kv.reuse();
        std::mem::swap(&mut self.kv, &mut before.kv);
        let keeps = keeps && reuse == self.kv.reuse();
        self.kv.set_reuse(reuse);
        self.kv.set_layout(super::layout(&self.forward));
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
            // Pages that could not be copied are prefilled again.
            self.executor.attach_thread()?;
        }
        let change = self.kv.resize(slots, (pages, chunk));
        self.changed(change);
        Ok(false)
    }

    /// Copies pages through the host's memory. Returns false if one of the executors cannot.
    fn bring(&mut self, before: &mut Self, copies: &[Copied]) -> Result<bool, RunError> {
        before.executor.attach_thread()?;
        before.executor.discard_pages();
        for Copied { from, to } in copies {
            before.executor.attach_thread()?;
            if !before.executor.send_page(*from, 0, PAGE)? {
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
