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

#[cfg(test)]
mod tests {
    use super::super::halves::half;
    use super::super::{Format, random};
    use super::*;

    /// The columns of `FORMATS` in `kernels/format.cuh` for a format.
    fn line(format: Format) -> Vec<&'static str> {
        let kernels = include_str!("../../kernels/format.cuh");
        let begin = format!("    FORMAT({format:?},").to_uppercase();
        let line = kernels.lines().find_map(|line| line.strip_prefix(&begin));
        let line = line.unwrap_or_else(|| panic!("kernels/format.cuh has no {begin}"));
        let (columns, _) = line.split_once(')').expect("a parenthesis");
        columns.split(',').map(str::trim).collect()
    }

    /// The share of the head's number that `SHARE_OF_HEAD` of `kernels/format.cuh` has.
    fn share(format: Format) -> f32 {
        let kernels = include_str!("../../kernels/format.cuh");
        let begin = format!("F == {format:?} ? ");
        let share = kernels.split_once(&begin).and_then(|(_, rest)| {
            let (number, _) = rest.split_once('f')?;
            number.parse().ok()
        });
        share.unwrap_or(1.0)
    }

    /// The scale and the minimum of a block of a unit, as `RowScale` of `kernels/format.cuh` computes them.
    fn scale_of(kind: &str, scales: &[u8], head: &[u8], block: usize) -> (f32, f32) {
        let number = |bytes: &[u8], index: usize| {
            half(u16::from_le_bytes([bytes[2 * index], bytes[2 * index + 1]]).into())
        };
        let product = |index: usize, byte: u8| number(head, index) * f32::from(byte);
        match kind {
            "HALVES" => (number(scales, block), 0.0),
            "PAIRS" => (number(scales, 2 * block), number(scales, 2 * block + 1)),
            "BYTE_PAIRS" => (
                product(0, scales[2 * block]),
                -product(1, scales[2 * block + 1]),
            ),
            "NIBBLE_PAIRS" => (
                product(0, scales[block] & 15),
                -product(1, scales[block] >> 4),
            ),
            "BYTES" => (
                number(head, 0) * f32::from(scales[block].cast_signed()),
                0.0,
            ),
            _ => panic!("{kind}"),
        }
    }

    #[test]
    fn kernels_get_the_same_integers_scales_and_minima() {
        let (columns, formats) = (512, Format::ALL.into_iter());
        for format in formats.filter(|format| format.block_len() > 1) {
            let (about, line) = (format.about(), line(format));
            let (layout, zero, kind) = (about.layout, line[6], line[7]);
            let zero: i32 = zero.parse().expect("a number");
            let stored = random::matrix(9, format, TILE_ROWS, columns);
            let mut apart = TileRows::new(layout, columns);
            (about.take_apart)(&stored, columns, &mut apart);
            let rows = stored.chunks_exact(format.row_bytes(columns));
            for (row, stored) in rows.enumerate() {
                let mut column = 0;
                format.groups(stored, |integers, scale, minimum| {
                    let quants = &apart.quants[row * columns + column..][..integers.len()];
                    for (quant, integer) in quants.iter().zip(integers) {
                        let quant = i32::from(*quant) - zero;
                        let same = layout.codes || quant == i32::from(*integer);
                        assert!(same, "{format:?} {row}, {column}");
                    }
                    let (unit, block) = (column / UNIT, column % UNIT / integers.len());
                    let each = layout.scales / TILE_ROWS;
                    let scales = &apart.scales[unit * layout.scales + pair_at(row) * each..];
                    let of_head = unit / 4 * layout.head + pair_at(row) * layout.head / TILE_ROWS;
                    let (mut own, less) = scale_of(kind, scales, &apart.heads[of_head..], block);
                    own *= share(format);
                    assert_eq!((own, less), (scale, minimum), "{format:?} {row}, {column}");
                    column += integers.len();
                });
            }
        }
    }
}
