//! Values in the memory layout of an executor's buffer.

use super::{decode, encode};
use crate::executor::Layout;
use crate::tape::BufferInfo;

impl Layout {
    /// Writes rows of `columns` values to a buffer's memory.
    pub(super) fn put(self, values: &[f32], columns: usize, memory: &mut [u8]) {
        let row_bytes = self.stride * self.dtype.bytes();
        for (values, memory) in values.chunks(columns).zip(memory.chunks_mut(row_bytes)) {
            let bytes = encode(self.dtype, values);
            memory.fill(0);
            memory[..bytes.len()].copy_from_slice(&bytes);
        }
    }

    /// Reads the elements from a buffer's memory.
    pub(super) fn take(self, info: &BufferInfo, memory: &[u8]) -> Vec<f32> {
        let size = self.dtype.bytes();
        memory
            .chunks(self.stride * size)
            .take(info.rows)
            .flat_map(|row| decode(self.dtype, &row[..info.columns * size]))
            .collect()
    }

    /// Bytes of the elements of a row, without padding.
    pub(super) fn own(self, info: &BufferInfo, row: usize) -> usize {
        if row < info.rows {
            info.columns * self.dtype.bytes()
        } else {
            0
        }
    }
}
