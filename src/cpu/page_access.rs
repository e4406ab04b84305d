//! The pages of the CPU's cache. Copies to and from the host finish at once.

use super::Cpu;
use crate::executor::{ExecuteError, Pages};

impl Pages for Cpu {
    fn set_pages(
        &mut self,
        slot: usize,
        tables: &[Vec<Option<usize>>],
    ) -> Result<(), ExecuteError> {
        self.discard_ahead_of(slot);
        self.core.cache.set_pages(slot, tables);
        Ok(())
    }

    fn release(&mut self, chunks: &[usize]) -> Result<(), ExecuteError> {
        self.core.cache.release(chunks);
        Ok(())
    }

    fn allocate(&mut self, chunk: usize) -> Result<(), ExecuteError> {
        self.core.cache.allocate(chunk);
        Ok(())
    }

    fn copy_page(&mut self, from: usize, to: usize) -> Result<(), ExecuteError> {
        self.core.cache.copy_page(from, to);
        Ok(())
    }

    fn send_page(
        &mut self,
        page: usize,
        group: usize,
        positions: usize,
    ) -> Result<bool, ExecuteError> {
        if self.sent.is_some() {
            return Ok(false);
        }
        let mut bytes = vec![0; self.kv.page_bytes()];
        let cache = &self.core.cache;
        cache.read_page((page, group), positions, &mut bytes);
        self.sent = Some(bytes);
        Ok(true)
    }

    fn take_page(&mut self) -> Result<Option<Vec<u8>>, ExecuteError> {
        Ok(self.sent.take())
    }

    fn discard_pages(&mut self) {
        self.sent = None;
    }

    fn write_page(&mut self, page: usize, bytes: &[u8]) -> Result<bool, ExecuteError> {
        self.core.cache.write_page(page, bytes);
        Ok(true)
    }
}
