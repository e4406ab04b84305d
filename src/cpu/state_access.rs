//! The recurrent states of slots, and their copies in pages of the cache.

use super::Cpu;
use crate::executor::{ExecuteError, StateError, States};

impl States for Cpu {
    fn clear_state(&mut self, slot: usize) -> Result<(), ExecuteError> {
        // Operations take the state for zero at position 0.
        self.discard_state(slot);
        Ok(())
    }

    fn store_state(
        &mut self,
        slot: usize,
        position: usize,
        pages: &[usize],
    ) -> Result<(), ExecuteError> {
        let mut bytes = Vec::with_capacity(self.checkpoint_bytes());
        self.read_state(slot, position, &mut bytes)?;
        let (page_bytes, needed) = (self.kv.page_bytes(), bytes.len());
        if needed > pages.len() * page_bytes {
            let given = pages.len() * page_bytes;
            return Err(StateError::Checkpoint { given, needed }.into());
        }
        bytes.resize(pages.len() * page_bytes, 0);
        for (page, bytes) in pages.iter().zip(bytes.chunks_exact(page_bytes)) {
            self.core.cache.write_page(*page, bytes);
        }
        Ok(())
    }

    fn load_state(&mut self, slot: usize, pages: &[usize]) -> Result<(), ExecuteError> {
        let mut bytes = Vec::new();
        for page in pages {
            bytes.extend_from_slice(self.core.cache.page(*page));
        }
        bytes.truncate(self.checkpoint_bytes());
        self.write_state(slot, &bytes)?;
        Ok(())
    }
}

impl Cpu {
    fn checkpoint_bytes(&self) -> usize {
        let states = self.core.states.as_ref();
        states.map_or(0, |states| states.info().checkpoint_bytes())
    }
}
