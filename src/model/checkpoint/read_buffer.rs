//! The buffer for reads of a file, aligned as a disk's transfers require.

use std::ops::Range;

use crate::model::weights::{RowOrder, Tensor};

/// The unit of offset, length and memory of a read around the page cache. No disk has larger blocks.
pub(super) const BLOCK: usize = 4096;

/// The reusable buffers of one reading thread.
#[derive(Debug, Default)]
pub struct ReadBuffer {
    blocks: Vec<u8>,
    /// Rows of a permuted tensor in the model's order.
    rows: Vec<u8>,
}

impl ReadBuffer {
    /// Returns `length` bytes that begin at a multiple of `BLOCK`.
    pub(super) fn blocks(&mut self, length: usize) -> &mut [u8] {
        if self.blocks.len() < length + BLOCK {
            self.blocks = vec![0; length + BLOCK];
        }
        let start = self.start();
        &mut self.blocks[start..][..length]
    }

    /// Returns the offset of the first whole block.
    fn start(&self) -> usize {
        self.blocks.as_ptr().align_offset(BLOCK).min(BLOCK)
    }

    /// Returns rows of a tensor in the model's order, from `stored` bytes of the buffer that hold rows from `first` on.
    pub(super) fn ordered(
        &mut self,
        tensor: &Tensor,
        (rows, first): (Range<usize>, usize),
        stored: Range<usize>,
    ) -> &[u8] {
        let stored = &self.blocks[self.start()..][stored];
        if tensor.row_order == RowOrder::Plain {
            return stored;
        }
        let row_bytes = tensor.row_bytes();
        self.rows.clear();
        for row in rows {
            let at = (tensor.file_row(row) - first) * row_bytes;
            self.rows.extend_from_slice(&stored[at..at + row_bytes]);
        }
        &self.rows
    }
}
