//! The tapes of a vision tower on the CPU.

use std::ops::Range;

use super::Cpu;
use crate::executor::{Encode, ExecuteError};
use crate::tape::{Buffer, Tape};

impl Encode for Cpu {
    fn reserve(&mut self, tape: &Tape) -> Result<(), ExecuteError> {
        self.core.prepare(tape);
        Ok(())
    }

    fn write_rows(
        &mut self,
        tape: &Tape,
        buffer: Buffer,
        first: usize,
        values: &[f32],
    ) -> Result<(), ExecuteError> {
        let info = tape.buffer(buffer);
        let begin = first * info.columns;
        let rows = &mut self.core.buffers.activations[buffer.0][begin..begin + values.len()];
        rows.copy_from_slice(values);
        info.dtype.round(rows);
        Ok(())
    }

    fn run_operations(
        &mut self,
        tape: &Tape,
        operations: Range<usize>,
    ) -> Result<(), ExecuteError> {
        self.core.run(tape, operations, 0)
    }

    fn read_rows(
        &mut self,
        tape: &Tape,
        buffer: Buffer,
        out: &mut Vec<f32>,
    ) -> Result<(), ExecuteError> {
        let info = tape.buffer(buffer);
        let rows = &self.core.buffers.activations[buffer.0][..info.rows * info.columns];
        out.extend_from_slice(rows);
        Ok(())
    }

    fn reserved_bytes(&self) -> u64 {
        self.core.activation_bytes() as u64
    }
}
