//! An executor with a single fault, on top of the CPU's.

use ganglion::check::worst;
use ganglion::cpu::Cpu;
use ganglion::executor::{ExecuteError, Executor, Layout, Probe, Steps as _};
use ganglion::kv::KvType;
use ganglion::tape::{Buffer, Op, Tape};

/// The fault after each run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fault {
    /// An element of its first output is off by a little more than the bound.
    Element,
    /// An element of its first output stays unwritten.
    Unwritten,
    /// The memory behind its first output changes.
    Beyond,
    /// An input changes.
    Input,
    /// The cache changes where nothing is stored.
    Cache,
    /// The choice changes.
    State,
    /// The quants of a stored block are the next higher ones. A single one may lie halfway.
    Quant,
    /// The stored scale is off by a little more than the bound.
    Scale,
}

pub(super) struct Faulty {
    cpu: Cpu,
    pub(super) fault: Option<Fault>,
}

impl Faulty {
    pub(super) fn new(cpu: Cpu) -> Self {
        Self { cpu, fault: None }
    }

    /// Changes one element of a buffer, possibly beyond its last.
    fn set(
        &mut self,
        buffer: Buffer,
        at: usize,
        new: impl Fn(f32) -> f32,
    ) -> Result<(), ExecuteError> {
        let mut bytes = self
            .cpu
            .read_buffer(buffer, self.cpu.buffer_bytes(buffer))?;
        let at = &mut bytes[4 * at..4 * at + 4];
        let old = floats(at)[0];
        at.copy_from_slice(&new(old).to_le_bytes());
        self.cpu.write_buffer(buffer, &bytes)
    }

    fn change(&mut self, tape: &Tape, fault: Fault, slot: usize) -> Result<(), ExecuteError> {
        // The beginning and the end of a recurrent prompt have neither.
        let mut inputs = tape.ops.iter().map(|op| op.buffers().0);
        let inputs = inputs.find(|inputs| !inputs.is_empty()).unwrap_or_default();
        let mut outputs = tape.ops.iter().rev().map(|op| op.buffers().1);
        let outputs = outputs.find(|outputs| !outputs.is_empty());
        let outputs = outputs.unwrap_or_default();
        let last = |buffer: Buffer| tape.buffer(buffer).rows * tape.buffer(buffer).columns - 1;
        match fault {
            Fault::Element => {
                let info = tape.buffer(outputs[0]);
                let bytes = self.cpu.read_buffer(outputs[0], 4 * info.columns)?;
                let values = floats(&bytes);
                let beyond = |step: &f32| {
                    let mut off = values.clone();
                    off[0] += step;
                    worst(&values, &off, info.columns, info.dtype).ratio > 1.2
                };
                let mut steps = std::iter::successors(Some(1e-6), |step| Some(step * 1.1));
                let step = steps.find(beyond).expect("it is found");
                self.set(outputs[0], 0, |old| old + step)
            }
            Fault::Unwritten => self.set(outputs[0], 0, |_| f32::from_bits(u32::MAX)),
            Fault::Beyond => self.set(outputs[0], last(outputs[0]) + 1, |_| 0.0),
            Fault::Input => self.set(inputs[0], 0, |old| old + 1e-6),
            Fault::Cache => {
                let mut cache = self.cpu.read_cache(1)?;
                let last = cache[1].len() - 1;
                cache[1][last] ^= 1;
                self.cpu.write_cache(1, &cache)
            }
            Fault::State => {
                let token = self.cpu.state().token;
                self.cpu.set_token(token ^ 1);
                Ok(())
            }
            Fault::Quant | Fault::Scale => {
                let (element, head_dim) = (tape.kv.types.k, tape.kv.kinds[0].head_dim);
                let position = self.cpu.state_of(slot).position - 1;
                let mut cache = self.cpu.read_cache(slot)?;
                let head = &mut cache[0][position * element.bytes(head_dim)..];
                if fault == Fault::Quant {
                    let block = head[..KvType::Q8_0.granule()].iter_mut();
                    block.for_each(|quant| *quant ^= 1);
                } else {
                    let scale = u16::from_le_bytes([head[head_dim], head[head_dim + 1]]);
                    head[head_dim..head_dim + 2].copy_from_slice(&(scale + 2).to_le_bytes());
                }
                self.cpu.write_cache(slot, &cache)
            }
        }
    }
}

impl Probe for Faulty {
    fn executor(&mut self) -> &mut dyn Executor {
        &mut self.cpu
    }

    fn run_part(
        &mut self,
        tape: &Tape,
        tokens: &[u32],
        slots: &[usize],
    ) -> Result<(), ExecuteError> {
        self.cpu.run_part(tape, tokens, slots)?;
        self.fault
            .map_or(Ok(()), |fault| self.change(tape, fault, slots[0]))
    }

    fn layout(&self, tape: &Tape, buffer: Buffer) -> Layout {
        self.cpu.layout(tape, buffer)
    }

    fn buffer_bytes(&self, buffer: Buffer) -> usize {
        self.cpu.buffer_bytes(buffer)
    }

    fn write_buffer(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<(), ExecuteError> {
        self.cpu.write_buffer(buffer, bytes)
    }

    fn read_buffer(&mut self, buffer: Buffer, bytes: usize) -> Result<Vec<u8>, ExecuteError> {
        self.cpu.read_buffer(buffer, bytes)
    }

    fn write_cache(&mut self, slot: usize, bytes: &[Vec<u8>; 2]) -> Result<(), ExecuteError> {
        self.cpu.write_cache(slot, bytes)
    }

    fn read_cache(&mut self, slot: usize) -> Result<[Vec<u8>; 2], ExecuteError> {
        self.cpu.read_cache(slot)
    }

    fn poison_scratch(&mut self) -> Result<(), ExecuteError> {
        self.cpu.poison_scratch()
    }
}

/// Returns the possible faults of an operation.
pub(super) fn faults(op: &Op) -> &'static [Fault] {
    match op {
        // These have no input but their output.
        Op::Embed { .. } | Op::Softcap { .. } | Op::LayerInputs { .. } => {
            &[Fault::Element, Fault::Unwritten, Fault::Beyond]
        }
        Op::RopeStore { .. } | Op::Attend { .. } => &[
            Fault::Element,
            Fault::Unwritten,
            Fault::Beyond,
            Fault::Input,
            Fault::Cache,
        ],
        Op::Sample { .. } => &[Fault::State],
        _ => &[
            Fault::Element,
            Fault::Unwritten,
            Fault::Beyond,
            Fault::Input,
        ],
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    let words = bytes.as_chunks::<4>().0.iter();
    words.map(|bytes| f32::from_le_bytes(*bytes)).collect()
}
