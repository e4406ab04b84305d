//! Slots and cache as bytes, for a comparison of executors; a forward pass has no use for it.

use super::memory::{self, Slots};
use super::{Cuda, Error};
use crate::graph::Stepper;
use crate::tape::{ExecuteError, Slot, Tape};

impl Cuda {
    /// Elements from one row of a slot to the next.
    pub(in crate::tape) fn stride(tape: &Tape, slot: Slot) -> usize {
        memory::stride(tape, slot)
    }

    pub(in crate::tape) fn slot_bytes(&self, Slot(slot): Slot) -> usize {
        let held = self.slots.held.get(slot);
        held.map_or(0, |(_, region, _)| region.bytes())
    }

    pub(in crate::tape) fn write_slot(
        &mut self,
        Slot(slot): Slot,
        bytes: &[u8],
    ) -> Result<(), Error> {
        let held = self.slots.held.get_mut(slot);
        let (arena, region, _) = held.ok_or(Error::Bounds { bytes: bytes.len() })?;
        arena.write(*region, bytes, &mut self.stream)
    }

    /// The first `bytes` of a slot.
    pub(in crate::tape) fn read_slot(
        &mut self,
        Slot(slot): Slot,
        bytes: usize,
    ) -> Result<Vec<u8>, Error> {
        let held = self.slots.held.get(slot);
        let (arena, region, _) = held.ok_or(Error::Bounds { bytes })?;
        let mut out = vec![0; bytes];
        arena.read(*region, &mut out, &mut self.stream)?;
        Ok(out)
    }

    /// K and V of the first layer of a region, (head, position, head_dim).
    pub(in crate::tape) fn write_cache(
        &mut self,
        region: usize,
        bytes: &[Vec<u8>; 2],
    ) -> Result<(), Error> {
        for (side, bytes) in bytes.iter().enumerate() {
            let region = self.cache.memory[self.kv.layers * (2 * region + side)];
            self.cache.arena.write(region, bytes, &mut self.stream)?;
        }
        Ok(())
    }

    pub(in crate::tape) fn read_cache(&mut self, region: usize) -> Result<[Vec<u8>; 2], Error> {
        let mut out = [Vec::new(), Vec::new()];
        for (side, bytes) in out.iter_mut().enumerate() {
            let region = self.cache.memory[self.kv.layers * (2 * region + side)];
            bytes.resize(region.bytes(), 0);
            self.cache.arena.read(region, bytes, &mut self.stream)?;
        }
        Ok(out)
    }

    /// Fills what operations keep to themselves with bytes that are a NaN in every type.
    pub(in crate::tape) fn poison_scratch(&mut self) -> Result<(), Error> {
        let Slots {
            normed,
            sums,
            gates,
            partials,
            ..
        } = &mut self.slots;
        for (arena, region, _) in normed.iter_mut().chain(sums).chain(gates).chain(partials) {
            arena.set(*region, 0xff, &mut self.stream)?;
        }
        Ok(())
    }

    /// Runs a step that chooses no token, which is no step of generation: its operations, as they are.
    pub(in crate::tape) fn run_part(&mut self, tape: &Tape) -> Result<(), ExecuteError> {
        self.drain()?;
        self.fits(1)?;
        self.split(tape).0.eager(0..tape.ops.len())?;
        self.stream.synchronize()?;
        self.state.position += 1;
        Ok(())
    }
}
