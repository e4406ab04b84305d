//! Access to an executor's memory for comparisons between executors. Generation does not use it.

use super::Executor;
use super::images::ImagePrompt;
use super::step::ExecuteError;
use crate::quant::DType;
use crate::tape::{Buffer, Tape};

/// The layout of a buffer in an executor's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub dtype: DType,
    /// Elements from one row to the next. Elements after the last column are zero in an input.
    pub stride: usize,
}

/// An executor whose buffers and cache can be read and written.
///
/// Buffers have the layout that `layout` returns. The cache is that of the first layer of a slot, K and V, with each (head,
/// position) encoded by `KvType`.
pub trait Probe {
    fn executor(&mut self) -> &mut dyn Executor;
    /// Runs a prompt of `tokens` in the first of `slots`, or a step with a row for each slot. The tape may be incomplete.
    fn run_part(
        &mut self,
        tape: &Tape,
        tokens: &[u32],
        slots: &[usize],
    ) -> Result<(), ExecuteError>;
    /// Runs a prompt with images in the active slot. The tape may be incomplete.
    fn run_images_part(
        &mut self,
        tape: &Tape,
        prompt: &ImagePrompt<'_>,
    ) -> Result<(), ExecuteError> {
        self.executor().run_images(tape, prompt, None).map(drop)
    }
    fn layout(&self, tape: &Tape, buffer: Buffer) -> Layout;
    /// Allocated bytes of a buffer; a tape uses the first of them.
    fn buffer_bytes(&self, buffer: Buffer) -> usize;
    fn write_buffer(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<(), ExecuteError>;
    /// Returns the first `bytes` of a buffer.
    fn read_buffer(&mut self, buffer: Buffer, bytes: usize) -> Result<Vec<u8>, ExecuteError>;
    fn write_cache(&mut self, slot: usize, bytes: &[Vec<u8>; 2]) -> Result<(), ExecuteError>;
    fn read_cache(&mut self, slot: usize) -> Result<[Vec<u8>; 2], ExecuteError>;
    /// Fills the scratch memory of operations with NaN.
    fn poison_scratch(&mut self) -> Result<(), ExecuteError>;
}
