//! Reads and writes buffers and cache as bytes, for comparisons between executors.

use super::Cuda;
use super::memory::{self, Buffers};
use crate::device::Error;
use crate::executor::{Encode, ExecuteError, Executor, ImagePrompt, Layout, Probe, Steps as _};
use crate::graph::Stepper as _;
use crate::quant::DType;
use crate::tape::{Buffer, BufferInfo, Ending, Input, Op, Tape, WeightId};

impl Probe for Cuda {
    fn executor(&mut self) -> &mut dyn Executor {
        self
    }

    fn run_part(
        &mut self,
        tape: &Tape,
        tokens: &[u32],
        slots: &[usize],
    ) -> Result<(), ExecuteError> {
        if matches!(tape.input, Input::Patches { .. }) {
            self.prepare(tape)?;
            Encode::run_operations(self, tape, 0..tape.ops.len())?;
            return self.finish();
        }
        let tape = &with_beginning(tape);
        self.prepare(tape)?;
        // The run is not repeated, so its masks have to be there.
        for slot in slots {
            self.settle_mask(*slot)?;
        }
        match (tape.input, tape.ending) {
            (Input::Prompt | Input::Patches { .. }, _) => self.run(tape, tokens),
            (Input::Step, Ending::Token) => self.step_rows(tape, slots, &[], None, None).map(drop),
            (Input::Step, _) => self.run_step(tape, slots),
        }
    }

    fn run_images_part(
        &mut self,
        tape: &Tape,
        prompt: &ImagePrompt<'_>,
    ) -> Result<(), ExecuteError> {
        let tape = &with_beginning(tape);
        self.prepare(tape)?;
        self.run_images(tape, prompt, None).map(drop)
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

    fn write_cache(&mut self, slot: usize, bytes: &[Vec<u8>; 2]) -> Result<(), ExecuteError> {
        Ok(self.pages.write(slot, bytes, &mut self.stream)?)
    }

    fn read_cache(&mut self, slot: usize) -> Result<[Vec<u8>; 2], ExecuteError> {
        Ok(self.pages.read(slot, &mut self.stream)?)
    }

    /// Fills them with bytes that are NaN in every type.
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
    /// Gives each conversation other pages, in random order.
    pub(crate) fn scatter_pages(
        &mut self,
        random: impl FnMut(usize) -> usize,
    ) -> Result<(), Error> {
        self.pages.scatter(random);
        self.send_tables()
    }

    /// Runs the operations of a step that chooses no token and so is not part of generation.
    fn run_step(&mut self, tape: &Tape, slots: &[usize]) -> Result<(), ExecuteError> {
        self.drain()?;
        for slot in slots {
            self.fits(*slot, 1)?;
        }
        self.command(tape, slots, &[]);
        // Attention reads its rows early. In generation the operations before it give the commands time to arrive.
        let begins = usize::from(matches!(tape.ops[0], Op::Embed { .. }));
        self.split(tape).0.eager(0..begins)?;
        self.stream.synchronize()?;
        self.split(tape).0.eager(begins..tape.ops.len())?;
        self.stream.synchronize()?;
        for slot in slots {
            self.conversations[*slot].state.position += 1;
            self.conversations[*slot].moved();
        }
        Ok(())
    }
}

/// The tape with the operation that starts every run and sends the rows to the device.
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
        let scale = 1.0;
        whole.ops.insert(0, Op::Embed { table, scale, x });
    }
    whole
}
