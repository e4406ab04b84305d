//! Values in a buffer's memory, as an executor lays them out.

use super::{decode, encode};
use crate::executor::Layout;
use crate::tape::BufferInfo;

impl Layout {
    /// Puts rows of `columns` values into a buffer's memory.
    pub(super) fn put(self, values: &[f32], columns: usize, memory: &mut [u8]) {
        let row_bytes = self.stride * self.dtype.bytes();
        for (values, memory) in values.chunks(columns).zip(memory.chunks_mut(row_bytes)) {
            let bytes = encode(self.dtype, values);
            memory.fill(0);
            memory[..bytes.len()].copy_from_slice(&bytes);
        }
    }

    /// The elements in a buffer's memory.
    pub(super) fn take(self, info: &BufferInfo, memory: &[u8]) -> Vec<f32> {
        let size = self.dtype.bytes();
        memory
            .chunks(self.stride * size)
            .take(info.rows)
            .flat_map(|row| decode(self.dtype, &row[..info.columns * size]))
            .collect()
    }

    /// Bytes of elements that a row of a buffer's memory begins with.
    pub(super) fn own(self, info: &BufferInfo, row: usize) -> usize {
        if row < info.rows {
            info.columns * self.dtype.bytes()
        } else {
            0
        }
    }
}
