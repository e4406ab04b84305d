//! Buffers and cache as bytes, for a comparison of executors; a forward pass has no use for it.

use super::memory::{self, Buffers};
use super::{Cuda, Error};
use crate::executor::{Executor, Inspect, Layout};
use crate::graph::Stepper as _;
use crate::tape::{Buffer, BufferInfo, DType, Ending, ExecuteError, Input, Op, Tape, WeightId};

impl Inspect for Cuda {
    fn executor(&mut self) -> &mut dyn Executor {
        self
    }

    fn run_part(
        &mut self,
        tape: &Tape,
        tokens: &[u32],
        entries: &[usize],
    ) -> Result<(), ExecuteError> {
        let tape = &with_beginning(tape);
        self.prepare(tape)?;
        // What runs but once finds its masks there.
        for entry in entries {
            self.settle_mask(*entry)?;
        }
        match (tape.input, tape.ending) {
            (Input::Prompt, _) => self.run(tape, tokens),
            (Input::Step, Ending::Token) => {
                self.step_rows(tape, entries, &[], None, None).map(drop)
            }
            (Input::Step, _) => self.run_operations(tape, entries),
        }
    }

    fn layout(&self, tape: &Tape, buffer: Buffer) -> Layout {
        Layout {
            dtype: tape.buffer(buffer).dtype,
            stride: memory::stride(tape, buffer),
        }
    }

    fn buffer_bytes(&self, Buffer(buffer): Buffer) -> usize {
        let held = self.buffers.held.get(buffer);
        held.map_or(0, |(_, region, _)| region.bytes())
    }

    fn write_buffer(&mut self, Buffer(buffer): Buffer, bytes: &[u8]) -> Result<(), ExecuteError> {
        let held = self.buffers.held.get_mut(buffer);
        let (arena, region, _) = held.ok_or(Error::Bounds { bytes: bytes.len() })?;
        Ok(arena.write(*region, bytes, &mut self.stream)?)
    }

    fn read_buffer(
        &mut self,
        Buffer(buffer): Buffer,
        bytes: usize,
    ) -> Result<Vec<u8>, ExecuteError> {
        let held = self.buffers.held.get(buffer);
        let (arena, region, _) = held.ok_or(Error::Bounds { bytes })?;
        let mut out = vec![0; bytes];
        arena.read(*region, &mut out, &mut self.stream)?;
        Ok(out)
    }

    fn write_cache(&mut self, entry: usize, bytes: &[Vec<u8>; 2]) -> Result<(), ExecuteError> {
        Ok(self.pages.write(entry, bytes, &mut self.stream)?)
    }

    fn read_cache(&mut self, entry: usize) -> Result<[Vec<u8>; 2], ExecuteError> {
        Ok(self.pages.read(entry, &mut self.stream)?)
    }

    /// They are bytes that are a NaN in every type.
    fn poison_scratch(&mut self) -> Result<(), ExecuteError> {
        let Buffers {
            normed,
            sums,
            gates,
            partials,
            ..
        } = &mut self.buffers;
        for (arena, region, _) in normed.iter_mut().chain(sums).chain(gates).chain(partials) {
            arena.set(*region, 0xff, &mut self.stream)?;
        }
        Ok(())
    }
}

impl Cuda {
    /// Gives each conversation other pages, in no order.
    pub(crate) fn scatter_pages(
        &mut self,
        random: impl FnMut(usize) -> usize,
    ) -> Result<(), Error> {
        self.pages.scatter(random);
        self.give_tables()
    }

    /// Runs a step that chooses no token, which is no step of generation: its operations, as they are.
    fn run_operations(&mut self, tape: &Tape, entries: &[usize]) -> Result<(), ExecuteError> {
        self.drain()?;
        for entry in entries {
            self.fits(*entry, 1)?;
        }
        self.command(tape, entries, &[]);
        // Attention may look for its rows while what stands between it and them in a step still runs; here nothing does.
        let begins = usize::from(matches!(tape.ops[0], Op::Embed { .. }));
        self.split(tape).0.eager(0..begins)?;
        self.stream.synchronize()?;
        self.split(tape).0.eager(begins..tape.ops.len())?;
        self.stream.synchronize()?;
        for entry in entries {
            self.conversations[*entry].state.position += 1;
            self.conversations[*entry].moved();
        }
        Ok(())
    }
}

/// The tape with what comes first in every run: it tells the device of its rows.
fn with_beginning(tape: &Tape) -> Tape {
    let mut whole = tape.clone();
    if !matches!(tape.ops[0], Op::Embed { .. }) {
        let table = WeightId(0);
        whole.buffers.push(BufferInfo {
            name: "embedded",
            rows: tape.rows,
            columns: tape.weight(table).columns,
            dtype: DType::F32,
        });
        let x = Buffer(tape.buffers.len());
        whole.ops.insert(0, Op::Embed { table, x });
    }
    whole
}
