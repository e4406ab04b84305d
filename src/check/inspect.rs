//! What a comparison needs of an executor besides running a tape: to put memory there, and to see it.

use super::{decode, encode};
#[cfg(feature = "cuda")]
use crate::cuda::Cuda;
use crate::executor::Executor;
use crate::sampler::{Mask, Parameters, Scored};
use crate::tape::{DType, Ending, ExecuteError, Input, Slot, SlotInfo, StepState, Tape};

/// How a slot's elements lie in an executor's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub dtype: DType,
    /// Elements from one row to the next; those after the last column are zeros in an input.
    pub stride: usize,
}

impl Layout {
    /// Puts rows of `columns` values into a slot's memory.
    pub(super) fn put(self, values: &[f32], columns: usize, memory: &mut [u8]) {
        let row_bytes = self.stride * self.dtype.bytes();
        for (values, memory) in values.chunks(columns).zip(memory.chunks_mut(row_bytes)) {
            let bytes = encode(self.dtype, values);
            memory.fill(0);
            memory[..bytes.len()].copy_from_slice(&bytes);
        }
    }

    /// The elements in a slot's memory.
    pub(super) fn take(self, info: &SlotInfo, memory: &[u8]) -> Vec<f32> {
        let size = self.dtype.bytes();
        memory
            .chunks(self.stride * size)
            .take(info.rows)
            .flat_map(|row| decode(self.dtype, &row[..info.columns * size]))
            .collect()
    }

    /// Whether a byte of a slot's memory belongs to an element.
    pub(super) fn holds(self, info: &SlotInfo, byte: usize) -> bool {
        let element = byte / self.dtype.bytes();
        element / self.stride < info.rows && element % self.stride < info.columns
    }
}

/// An executor whose slots and cache can be put and seen: slots as `layout` says, the first layer of a region of
/// the cache as K and V, each (head, position) as `KvType` encodes a head.
#[allow(clippy::missing_errors_doc)] // each fails if the device does
pub trait Inspect {
    fn prepare(&mut self, tape: &Tape) -> Result<(), ExecuteError>;
    fn begin(
        &mut self,
        place: (usize, usize),
        parameters: Parameters,
        prompt: &[u32],
    ) -> Result<(), ExecuteError>;
    fn post(&mut self, token: u32);
    fn guide(&mut self, region: usize, mask: Option<&Mask>) -> Result<(), ExecuteError>;
    fn scored(&self, region: usize) -> &[Scored];
    /// A prompt of `tokens` in the first of `regions`, or a step of a row in each.
    fn run(&mut self, tape: &Tape, tokens: &[u32], regions: &[usize]) -> Result<(), ExecuteError>;
    fn state(&self, region: usize) -> StepState;
    fn layout(&self, tape: &Tape, slot: Slot) -> Layout;
    /// Bytes that a slot has, of which a tape uses the first.
    fn slot_bytes(&self, slot: Slot) -> usize;
    fn write_slot(&mut self, slot: Slot, bytes: &[u8]) -> Result<(), ExecuteError>;
    fn read_slot(&mut self, slot: Slot, bytes: usize) -> Result<Vec<u8>, ExecuteError>;
    fn write_cache(&mut self, region: usize, bytes: &[Vec<u8>; 2]) -> Result<(), ExecuteError>;
    fn read_cache(&mut self, region: usize) -> Result<[Vec<u8>; 2], ExecuteError>;
    /// What operations keep to themselves holds no number.
    fn poison_scratch(&mut self) -> Result<(), ExecuteError>;
}

impl Inspect for Executor {
    fn prepare(&mut self, tape: &Tape) -> Result<(), ExecuteError> {
        Self::prepare(self, tape)
    }

    fn begin(
        &mut self,
        place: (usize, usize),
        parameters: Parameters,
        prompt: &[u32],
    ) -> Result<(), ExecuteError> {
        Self::begin(self, place, parameters, prompt)
    }

    fn post(&mut self, token: u32) {
        Self::post(self, token);
    }

    fn guide(&mut self, region: usize, mask: Option<&Mask>) -> Result<(), ExecuteError> {
        Self::guide(self, region, mask)?;
        #[cfg(feature = "cuda")]
        if let Self::Cuda(cuda) = self {
            cuda.settle_guide(region)?;
        }
        Ok(())
    }

    fn scored(&self, region: usize) -> &[Scored] {
        Self::scored(self, region)
    }

    fn run(&mut self, tape: &Tape, tokens: &[u32], regions: &[usize]) -> Result<(), ExecuteError> {
        #[cfg(feature = "cuda")]
        let whole = match self {
            Self::Cuda(cuda) => Some(cuda.with_beginning(tape)?),
            Self::Cpu(_) => None,
        };
        #[cfg(feature = "cuda")]
        let tape = whole.as_ref().unwrap_or(tape);
        match (tape.input, tape.ending) {
            (Input::Prompt, _) => Self::run(self, tape, tokens),
            (Input::Step, Ending::Token) => self.step_rows(tape, regions, &[], false),
            (Input::Step, _) => match self {
                Self::Cpu(cpu) => cpu.run_part(tape, regions),
                #[cfg(feature = "cuda")]
                Self::Cuda(cuda) => cuda.run_part(tape, regions),
            },
        }
    }

    fn state(&self, region: usize) -> StepState {
        self.state_of(region)
    }

    fn layout(&self, tape: &Tape, slot: Slot) -> Layout {
        match self {
            Self::Cpu(_) => Layout {
                dtype: DType::F32,
                stride: tape.slot(slot).columns,
            },
            #[cfg(feature = "cuda")]
            Self::Cuda(_) => Layout {
                dtype: tape.slot(slot).dtype,
                stride: Cuda::stride(tape, slot),
            },
        }
    }

    fn slot_bytes(&self, slot: Slot) -> usize {
        match self {
            Self::Cpu(cpu) => cpu.slot_bytes(slot),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.slot_bytes(slot),
        }
    }

    fn write_slot(&mut self, slot: Slot, bytes: &[u8]) -> Result<(), ExecuteError> {
        match self {
            Self::Cpu(cpu) => cpu.write_slot(slot, bytes),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.write_slot(slot, bytes)?,
        }
        Ok(())
    }

    fn read_slot(&mut self, slot: Slot, bytes: usize) -> Result<Vec<u8>, ExecuteError> {
        match self {
            Self::Cpu(cpu) => Ok(cpu.read_slot(slot, bytes)),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => Ok(cuda.read_slot(slot, bytes)?),
        }
    }

    fn write_cache(&mut self, region: usize, bytes: &[Vec<u8>; 2]) -> Result<(), ExecuteError> {
        match self {
            Self::Cpu(cpu) => cpu.write_cache(region, bytes),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.write_cache(region, bytes)?,
        }
        Ok(())
    }

    fn read_cache(&mut self, region: usize) -> Result<[Vec<u8>; 2], ExecuteError> {
        match self {
            Self::Cpu(cpu) => Ok(cpu.read_cache(region)),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => Ok(cuda.read_cache(region)?),
        }
    }

    fn poison_scratch(&mut self) -> Result<(), ExecuteError> {
        match self {
            Self::Cpu(cpu) => cpu.poison_scratch(),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.poison_scratch()?,
        }
        Ok(())
    }
}
