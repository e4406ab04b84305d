//! What a comparison needs of an executor besides running a tape: to put memory there, and to see it. Answers need none of it.

use super::Executor;
use crate::tape::{Buffer, DType, ExecuteError, Tape};

/// How a buffer's elements lie in an executor's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub dtype: DType,
    /// Elements from one row to the next; those after the last column are zeros in an input.
    pub stride: usize,
}

/// An executor whose buffers and cache can be put and seen: buffers as `layout` says, the first layer of an entry of the cache
/// as K and V, each (head, position) as `KvType` encodes a head.
pub trait Inspect {
    fn executor(&mut self) -> &mut dyn Executor;
    /// A prompt of `tokens` in the first of `entries`, or a step of a row in each; also one that is not whole.
    fn run_part(
        &mut self,
        tape: &Tape,
        tokens: &[u32],
        entries: &[usize],
    ) -> Result<(), ExecuteError>;
    fn layout(&self, tape: &Tape, buffer: Buffer) -> Layout;
    /// Bytes that a buffer has, of which a tape uses the first.
    fn buffer_bytes(&self, buffer: Buffer) -> usize;
    fn write_buffer(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<(), ExecuteError>;
    /// The first `bytes` of a buffer.
    fn read_buffer(&mut self, buffer: Buffer, bytes: usize) -> Result<Vec<u8>, ExecuteError>;
    fn write_cache(&mut self, entry: usize, bytes: &[Vec<u8>; 2]) -> Result<(), ExecuteError>;
    fn read_cache(&mut self, entry: usize) -> Result<[Vec<u8>; 2], ExecuteError>;
    /// What operations keep to themselves holds no number.
    fn poison_scratch(&mut self) -> Result<(), ExecuteError>;
}
