//! What one region of the cache takes over from another, on the device itself.

use super::{Cuda, Error};
use crate::device::Rows;

impl Cuda {
    /// Copies the first positions of a region to another, before whatever is queued next.
    ///
    /// # Errors
    /// If the device has failed.
    pub fn copy(&mut self, from: usize, to: usize, positions: usize) -> Result<(), Error> {
        self.drain()?;
        // Those of a head lie side by side.
        let position = self.kv.head_dim * self.kv.dtype.bytes();
        let rows = Rows {
            pitch: self.kv.context * position,
            bytes: positions * position,
            count: self.kv.heads,
        };
        let all = 2 * self.kv.layers;
        for at in 0..all {
            let [from, to] = [from, to].map(|region| self.cache.memory[all * region + at]);
            let arena = &mut self.cache.arena;
            arena.copy(from, to, rows, &mut self.stream)?;
        }
        Ok(())
    }
}
