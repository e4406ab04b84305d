//! Slots and cache as bytes, for a comparison of executors; a forward pass has no use for it.

use super::memory::{self, Slots};
use super::{Cuda, Error};
use crate::graph::Stepper;
use crate::tape::{DType, ExecuteError, Op, Slot, SlotInfo, Tape, WeightId};

impl Cuda {
    /// Elements from one row of a slot to the next.
    pub(crate) fn stride(tape: &Tape, slot: Slot) -> usize {
        memory::stride(tape, slot)
    }

    pub(crate) fn slot_bytes(&self, Slot(slot): Slot) -> usize {
        let held = self.slots.held.get(slot);
        held.map_or(0, |(_, region, _)| region.bytes())
    }

    pub(crate) fn write_slot(&mut self, Slot(slot): Slot, bytes: &[u8]) -> Result<(), Error> {
        let held = self.slots.held.get_mut(slot);
        let (arena, region, _) = held.ok_or(Error::Bounds { bytes: bytes.len() })?;
        arena.write(*region, bytes, &mut self.stream)
    }

    /// The first `bytes` of a slot.
    pub(crate) fn read_slot(&mut self, Slot(slot): Slot, bytes: usize) -> Result<Vec<u8>, Error> {
        let held = self.slots.held.get(slot);
        let (arena, region, _) = held.ok_or(Error::Bounds { bytes })?;
        let mut out = vec![0; bytes];
        arena.read(*region, &mut out, &mut self.stream)?;
        Ok(out)
    }

    /// K and V of the first layer of a region, (head, position) as `KvType` encodes a head.
    pub(crate) fn write_cache(&mut self, region: usize, bytes: &[Vec<u8>; 2]) -> Result<(), Error> {
        self.pages.write(region, bytes, &mut self.stream)
    }

    pub(crate) fn read_cache(&mut self, region: usize) -> Result<[Vec<u8>; 2], Error> {
        self.pages.read(region, &mut self.stream)
    }

    /// Gives each conversation other pages, in no order.
    pub(crate) fn scatter_pages(
        &mut self,
        random: impl FnMut(usize) -> usize,
    ) -> Result<(), Error> {
        self.pages.scatter(random);
        self.give_tables()
    }

    /// Fills what operations keep to themselves with bytes that are a NaN in every type.
    pub(crate) fn poison_scratch(&mut self) -> Result<(), Error> {
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

    /// The tape with what comes first in every run: it tells the device of its rows.
    pub(crate) fn with_beginning(&mut self, tape: &Tape) -> Result<Tape, Error> {
        let mut whole = tape.clone();
        if !matches!(tape.ops[0], Op::Embed { .. }) {
            let table = WeightId(0);
            whole.slots.push(SlotInfo {
                name: "embedded",
                rows: tape.rows,
                columns: tape.weight(table).columns,
                dtype: DType::F32,
            });
            let x = Slot(tape.slots.len());
            whole.ops.insert(0, Op::Embed { table, x });
        }
        self.prepare(&whole)?;
        Ok(whole)
    }

    /// Waits until a mask is where the next step finds it.
    pub(crate) fn settle_guide(&self, region: usize) -> Result<(), Error> {
        self.scratch.masks.0.settle(region)
    }

    /// Runs a step that chooses no token, which is no step of generation: its operations, as they are.
    pub(crate) fn run_part(&mut self, tape: &Tape, regions: &[usize]) -> Result<(), ExecuteError> {
        self.drain()?;
        for region in regions {
            self.fits(*region, 1)?;
        }
        self.command(tape, regions, &[]);
        // Attention may look for its rows while what stands between it and them in a step still runs; here nothing does.
        let begins = usize::from(matches!(tape.ops[0], Op::Embed { .. }));
        self.split(tape).0.eager(0..begins)?;
        self.stream.synchronize()?;
        self.split(tape).0.eager(begins..tape.ops.len())?;
        self.stream.synchronize()?;
        for region in regions {
            self.conversations[*region].state.position += 1;
            self.conversations[*region].moved();
        }
        Ok(())
    }
}
