//! The pages of the cache on a device. Copies are queued on the stream.

use super::Cuda;
use crate::executor::{ExecuteError, Pages};

impl Pages for Cuda {
    /// Waits for steps of the slot in flight, so that none of them writes to a page that another conversation gets.
    ///
    /// Steps of other slots do not read this slot's table. The device receives the change with the slot's next command.
    fn set_pages(
        &mut self,
        slot: usize,
        tables: &[Vec<Option<usize>>],
    ) -> Result<(), ExecuteError> {
        if self.is_launched(slot) {
            self.drain()?;
        }
        let changed = self.pages.set_pages(slot, tables);
        let each = self.pages.each();
        for index in changed.clone() {
            let address = self.pages.address(slot, index)?;
            self.scratch.tables.set(slot * each + index, address);
        }
        self.conversations[slot].pages_changed(changed);
        Ok(())
    }

    /// Cuts the tables of slots before the released chunks. Running slots have no page there.
    ///
    /// The device receives a cut with the slot's next command, before any of its rows runs. Recordings contain addresses of
    /// tables only, not of pages.
    fn release(&mut self, chunks: &[usize]) -> Result<(), ExecuteError> {
        if chunks.is_empty() {
            return Ok(());
        }
        // A prompt may still run.
        self.stream.synchronize()?;
        self.discard_in_flight();
        for slot in 0..self.kv.slots {
            let stays = self.pages.before(slot, chunks);
            self.set_pages(slot, &stays)?;
        }
        Ok(self.pages.release(chunks, &mut self.stream)?)
    }

    fn allocate(&mut self, chunk: usize) -> Result<(), ExecuteError> {
        Ok(self.pages.allocate(chunk, &mut self.stream)?)
    }

    fn copy_page(&mut self, from: usize, to: usize) -> Result<(), ExecuteError> {
        Ok(self.pages.copy(from, to, &mut self.stream)?)
    }

    fn send_page(
        &mut self,
        page: usize,
        group: usize,
        positions: usize,
    ) -> Result<bool, ExecuteError> {
        Ok(self
            .pages
            .send((page, group), positions, &mut self.stream)?)
    }

    fn take_page(&mut self) -> Result<Option<Vec<u8>>, ExecuteError> {
        Ok(self.pages.take_sent()?)
    }

    fn discard_pages(&mut self) {
        self.pages.discard_sent();
    }

    fn write_page(&mut self, page: usize, bytes: &[u8]) -> Result<bool, ExecuteError> {
        Ok(self.pages.write_page(page, bytes, &mut self.stream)?)
    }
}
