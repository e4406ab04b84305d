//! Where what is read of a file lands first: memory as a disk's own transfers ask for it.

use std::ops::Range;

use crate::model::Tensor;
use crate::model::weights::RowOrder;

/// Offset, length and memory of a read around the page cache are multiples of it: no disk has larger blocks.
pub(super) const BLOCK: usize = 4096;

/// Memory of one thread's reads, kept from one to the next.
#[derive(Debug, Default)]
pub struct Landing {
    blocks: Vec<u8>,
    /// Rows that lie in another order in their file, put in the model's.
    rows: Vec<u8>,
}

impl Landing {
    /// So many bytes that begin at a multiple of `BLOCK`.
    pub(super) fn blocks(&mut self, length: usize) -> &mut [u8] {
        if self.blocks.len() < length + BLOCK {
            self.blocks = vec![0; length + BLOCK];
        }
        let start = self.start();
        &mut self.blocks[start..][..length]
    }

    /// Where its first whole block begins: of bytes there always is one.
    fn start(&self) -> usize {
        self.blocks.as_ptr().align_offset(BLOCK).min(BLOCK)
    }

    /// Rows of a tensor in the model's order, from `stored` bytes that have landed: rows of the file from `first` on.
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
