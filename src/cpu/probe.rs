//! Reads and writes buffers and cache as bytes, for comparisons between executors.

use super::Cpu;
use crate::executor::{ExecuteError, Executor, Layout, Probe, Steps as _};
use crate::quant::DType;
use crate::tape::{Buffer, CacheLayer, Ending, Input, Tape};

impl Probe for Cpu {
    fn executor(&mut self) -> &mut dyn Executor {
        self
    }

    fn run_part(
        &mut self,
        tape: &Tape,
        tokens: &[u32],
        slots: &[usize],
    ) -> Result<(), ExecuteError> {
        match (tape.input, tape.ending) {
            (Input::Prompt, _) => return self.run(tape, tokens),
            (Input::Step, Ending::Token) => {
                return self.step_rows(tape, slots, &[], None, None).map(drop);
            }
            (Input::Patches { .. }, _) => return self.core.run(tape, 0..tape.ops.len(), 0),
            (Input::Step, _) => {}
        }
        // A step that chooses no token is not part of generation, so its operations run directly.
        for slot in slots {
            self.fits(*slot, 1, tape.rows)?;
        }
        self.core.rows.clear();
        self.core.given.clear();
        self.core.rows.extend_from_slice(slots);
        self.core.run(tape, 0..tape.ops.len(), slots[0])?;
        for slot in slots {
            self.core.conversations[*slot].state.position += 1;
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

    fn write_cache(&mut self, slot: usize, bytes: &[Vec<u8>; 2]) -> Result<(), ExecuteError> {
        self.core.cache.write(slot, CacheLayer::default(), bytes);
        Ok(())
    }

    fn read_cache(&mut self, slot: usize) -> Result<[Vec<u8>; 2], ExecuteError> {
        Ok(self.core.cache.read(slot, CacheLayer::default()))
    }

    fn poison_scratch(&mut self) -> Result<(), ExecuteError> {
        self.core.buffers.normed.fill(f32::NAN);
        self.core.buffers.product.fill(f32::NAN);
        Ok(())
    }
}
