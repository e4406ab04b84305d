//! The integers and scales of stored blocks, split for the units of a tile.

use super::layout::{Layout, TILE_ROWS, UNIT, padded};

/// Up to 16 rows, split into integers and scales.
pub(super) struct TileRows {
    /// Padded to whole units.
    pub(super) columns: usize,
    /// (16, columns): unsigned, as stored; Q8_0 plus 128
    pub(super) quants: Vec<u8>,
    /// The scales of consecutive units, as a tile stores them.
    pub(super) scales: Vec<u8>,
    /// The heads, each for four units (K formats).
    pub(super) heads: Vec<u8>,
    layout: Layout,
}

/// The destination of the parts of a block.
pub(super) struct Destination<'a, const N: usize> {
    pub(super) quants: &'a mut [u8; N],
    scales: &'a mut [u8],
    heads: &'a mut [u8],
    layout: Layout,
    row: usize,
    /// The index of the block in its row.
    index: usize,
}

impl TileRows {
    pub(super) fn new(layout: Layout, columns: usize) -> Self {
        let columns = padded(columns);
        Self {
            columns,
            quants: vec![0; TILE_ROWS * columns],
            scales: vec![0; columns / UNIT * layout.scales],
            heads: vec![0; columns / 256 * layout.head],
            layout,
        }
    }

    /// The destination of block `index` of a row.
    pub(super) fn destination<const N: usize>(
        &mut self,
        row: usize,
        index: usize,
    ) -> Destination<'_, N> {
        let row_quants = &mut self.quants[row * self.columns..][..self.columns];
        Destination {
            quants: &mut row_quants.as_chunks_mut().0[index],
            scales: &mut self.scales,
            heads: &mut self.heads,
            layout: self.layout,
            row,
            index,
        }
    }
}

impl<const N: usize> Destination<'_, N> {
    /// Stores the scale `number` of the block.
    pub(super) fn scale(&mut self, number: usize, bytes: &[u8]) {
        let of_unit = UNIT / self.layout.block_columns.unwrap_or(UNIT);
        let number = self.index * (N * of_unit / UNIT) + number;
        let (unit, within) = (number / of_unit, number % of_unit);
        let at = (pair_at(self.row) * of_unit + within) * bytes.len();
        put(self.scales, unit * self.layout.scales + at, bytes);
    }

    /// Stores the head that four units share.
    pub(super) fn head(&mut self, bytes: &[u8]) {
        let at = pair_at(self.row) * bytes.len();
        put(self.heads, self.index * self.layout.head + at, bytes);
    }
}

/// The offset of a row: rows g and g + 8 are adjacent.
const fn pair_at(row: usize) -> usize {
    row % 8 * 2 + row / 8
}

fn put(to: &mut [u8], at: usize, bytes: &[u8]) {
    to[at..at + bytes.len()].copy_from_slice(bytes);
}
