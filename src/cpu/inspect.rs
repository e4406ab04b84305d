//! Buffers and cache as bytes, for a comparison of executors; a forward pass has no use for it.

use super::Cpu;
use crate::executor::{Executor, Inspect, Layout};
use crate::tape::{Buffer, DType, Ending, ExecuteError, Input, Tape};

impl Inspect for Cpu {
    fn executor(&mut self) -> &mut dyn Executor {
        self
    }

    fn run_part(
        &mut self,
        tape: &Tape,
        tokens: &[u32],
        entries: &[usize],
    ) -> Result<(), ExecuteError> {
        match (tape.input, tape.ending) {
            (Input::Prompt, _) => return self.run(tape, tokens),
            (Input::Step, Ending::Token) => {
                return self.step_rows(tape, entries, &[], None, None).map(drop);
            }
            (Input::Step, _) => {}
        }
        // A step that chooses no token is no step of generation: its operations run as they are.
        for entry in entries {
            self.fits(*entry, 1, tape.rows)?;
        }
        self.core.rows.clear();
        self.core.forced.clear();
        self.core.rows.extend_from_slice(entries);
        self.core.run(tape, 0..tape.ops.len(), entries[0])?;
        for entry in entries {
            self.core.conversations[*entry].state.position += 1;
        }
        Ok(())
    }

    fn layout(&self, tape: &Tape, buffer: Buffer) -> Layout {
        Layout {
            dtype: DType::F32,
            stride: tape.buffer(buffer).columns,
        }
    }

    fn buffer_bytes(&self, buffer: Buffer) -> usize {
        4 * self.core.buffers.activations[buffer.0].len()
    }

    fn write_buffer(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<(), ExecuteError> {
        let values = self.core.buffers.activations[buffer.0].iter_mut();
        for (value, bytes) in values.zip(bytes.as_chunks().0) {
            *value = f32::from_le_bytes(*bytes);
        }
        Ok(())
    }

    fn read_buffer(&mut self, buffer: Buffer, bytes: usize) -> Result<Vec<u8>, ExecuteError> {
        let values = &self.core.buffers.activations[buffer.0][..bytes / 4];
        let mut image = vec![0; values.len() * 4];
        for (to, value) in image.as_chunks_mut().0.iter_mut().zip(values) {
            *to = value.to_le_bytes();
        }
        Ok(image)
    }

    fn write_cache(&mut self, entry: usize, bytes: &[Vec<u8>; 2]) -> Result<(), ExecuteError> {
        self.core.cache.write(entry, 0, bytes);
        Ok(())
    }

    fn read_cache(&mut self, entry: usize) -> Result<[Vec<u8>; 2], ExecuteError> {
        Ok(self.core.cache.read(entry, 0))
    }

    fn poison_scratch(&mut self) -> Result<(), ExecuteError> {
        self.core.buffers.normed.fill(f32::NAN);
        self.core.buffers.product.fill(f32::NAN);
        Ok(())
    }
}
