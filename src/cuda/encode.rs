//! The tapes of a vision tower on a device.
//!
//! A tower is an executor of its own, with its own stream: its kernels may run next to those of a language model. It uses
//! the context of the whole device, which is one in a process.

use std::ops::Range;

use half::{bf16, f16};

use super::memory::stride;
use super::{Cuda, HALVES_AHEAD};
use crate::device::{Error, RowSpans};
use crate::executor::{Encode, ExecuteError};
use crate::graph::Stepper as _;
use crate::quant::DType;
use crate::tape::{Buffer, Tape};

impl Encode for Cuda {
    fn reserve(&mut self, tape: &Tape) -> Result<(), ExecuteError> {
        self.context.make_current()?;
        self.attach_weights()?;
        self.buffers.grow(&self.context, tape, &mut self.stream)?;
        Ok(())
    }

    /// Queues the rows behind earlier work.
    fn write_rows(
        &mut self,
        tape: &Tape,
        buffer: Buffer,
        first: usize,
        values: &[f32],
    ) -> Result<(), ExecuteError> {
        self.context.make_current()?;
        let info = tape.buffer(buffer);
        let bytes = stride(tape, buffer) * info.dtype.bytes();
        let rows = RowSpans {
            pitch: bytes,
            bytes,
            count: values.len() / info.columns.max(1),
        };
        let put = |row: usize, bytes: &mut [u8]| {
            let values = &values[row * info.columns..][..info.columns];
            put(info.dtype, values, bytes);
        };
        let held = self.buffers.held.get_mut(buffer.0);
        let (arena, region, _) = held.ok_or(Error::Bounds { bytes })?;
        let upload = &mut self.scratch.upload;
        upload.rows(
            (arena, *region),
            (first * bytes, rows),
            put,
            &mut self.stream,
        )?;
        Ok(())
    }

    /// Launches the operations, and waits for those of the call before this one: a call that follows a pause has little to
    /// wait for, and the device is never idle between two calls.
    fn run_operations(
        &mut self,
        tape: &Tape,
        operations: Range<usize>,
    ) -> Result<(), ExecuteError> {
        self.context.make_current()?;
        self.split(tape).0.eager(operations)?;
        // A tower chooses no tokens, so that the number counts its runs.
        self.sequence = self.sequence.wrapping_add(1);
        let run = self.sequence as usize % HALVES_AHEAD;
        self.halves[run].record(&mut self.stream)?;
        self.halves[(run + 1) % HALVES_AHEAD].synchronize()?;
        Ok(())
    }

    fn read_rows(
        &mut self,
        tape: &Tape,
        buffer: Buffer,
        out: &mut Vec<f32>,
    ) -> Result<(), ExecuteError> {
        self.context.make_current()?;
        let info = tape.buffer(buffer);
        let row_bytes = stride(tape, buffer) * info.dtype.bytes();
        let mut bytes = vec![0; info.rows * row_bytes];
        let held = self.buffers.held.get(buffer.0);
        let (arena, region, _) = held.ok_or(Error::Bounds { bytes: bytes.len() })?;
        arena.read(*region, &mut bytes, &mut self.stream)?;
        for row in bytes.chunks_exact(row_bytes.max(1)) {
            take(info.dtype, &row[..info.columns * info.dtype.bytes()], out);
        }
        Ok(())
    }

    fn reserved_bytes(&self) -> u64 {
        self.buffers.bytes() + self.scratch.arena.bytes()
    }
}

/// Writes a row, whose end is padded by zeros.
fn put(dtype: DType, values: &[f32], bytes: &mut [u8]) {
    let own = values.len() * dtype.bytes();
    match dtype {
        DType::F32 => {
            for (bytes, value) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(values) {
                *bytes = value.to_le_bytes();
            }
        }
        DType::F16 => {
            for (bytes, value) in bytes.as_chunks_mut::<2>().0.iter_mut().zip(values) {
                *bytes = f16::from_f32(*value).to_le_bytes();
            }
        }
        DType::BF16 => {
            for (bytes, value) in bytes.as_chunks_mut::<2>().0.iter_mut().zip(values) {
                *bytes = bf16::from_f32(*value).to_le_bytes();
            }
        }
    }
    bytes[own..].fill(0);
}

/// Appends the values of a row.
fn take(dtype: DType, bytes: &[u8], out: &mut Vec<f32>) {
    let pairs = bytes.as_chunks::<2>().0.iter();
    match dtype {
        DType::F32 => {
            let words = bytes.as_chunks::<4>().0.iter();
            out.extend(words.map(|bytes| f32::from_le_bytes(*bytes)));
        }
        DType::F16 => out.extend(pairs.map(|bytes| f16::from_le_bytes(*bytes).to_f32())),
        DType::BF16 => out.extend(pairs.map(|bytes| bf16::from_le_bytes(*bytes).to_f32())),
    }
}
