//! Slots and cache as bytes, for a comparison of executors; a forward pass has no use for it.

use super::Cpu;
use crate::tape::{ExecuteError, Slot, Tape};

impl Cpu {
    pub(crate) fn slot_bytes(&self, slot: Slot) -> usize {
        4 * self.core.buffers.slots[slot.0].len()
    }

    pub(crate) fn write_slot(&mut self, slot: Slot, bytes: &[u8]) {
        let values = self.core.buffers.slots[slot.0].iter_mut();
        for (value, bytes) in values.zip(bytes.as_chunks().0) {
            *value = f32::from_le_bytes(*bytes);
        }
    }

    /// The first `bytes` of a slot.
    pub(crate) fn read_slot(&self, slot: Slot, bytes: usize) -> Vec<u8> {
        let values = &self.core.buffers.slots[slot.0][..bytes / 4];
        values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect()
    }

    /// K and V of the first layer of a region, (head, position) as `KvType` encodes a head.
    pub(crate) fn write_cache(&mut self, region: usize, bytes: &[Vec<u8>; 2]) {
        self.core.cache.write(region, 0, bytes);
    }

    pub(crate) fn read_cache(&self, region: usize) -> [Vec<u8>; 2] {
        self.core.cache.read(region, 0)
    }

    pub(crate) fn poison_scratch(&mut self) {
        self.core.buffers.normed.fill(f32::NAN);
        self.core.buffers.product.fill(f32::NAN);
    }

    /// Runs a step that chooses no token, which is no step of generation: its operations, as they are.
    pub(crate) fn run_part(&mut self, tape: &Tape, regions: &[usize]) -> Result<(), ExecuteError> {
        for region in regions {
            self.fits(*region, 1, tape.rows)?;
        }
        self.core.rows.clear();
        self.core.forced.clear();
        self.core.rows.extend_from_slice(regions);
        self.core.run(tape, 0..tape.ops.len(), regions[0])?;
        for region in regions {
            self.core.conversations[*region].state.position += 1;
        }
        Ok(())
    }
}
