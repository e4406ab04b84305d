//! How weights lie in device memory: the other side of `kernels/tile.cuh`, which describes the layout.
//!
//! Repacking moves bits and never changes a value; K formats' packed 6-bit scales become bytes.

use super::quants::{self, Rows};
use crate::model::Format;

/// Rows of a tile.
pub(super) const TILE_ROWS: usize = 16;
/// Columns of a unit.
pub(super) const UNIT: usize = 64;

/// Bytes of the parts of a unit, and of the head that four units of a K format share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) quants: usize,
    pub(super) high: usize,
    pub(super) scales: usize,
    pub(super) head: usize,
}

impl Layout {
    pub(super) const fn of(format: Format) -> Self {
        let (quants, high, scales, head) = match format {
            Format::F32 => (4096, 0, 0, 0),
            Format::F16 | Format::BF16 => (2048, 0, 0, 0),
            Format::Q8_0 => (1024, 0, 64, 0),
            Format::Q4_0 => (512, 0, 64, 0),
            Format::Q4_1 => (512, 0, 128, 0),
            Format::Q5_0 => (512, 128, 64, 0),
            Format::Q5_1 => (512, 128, 128, 0),
            Format::Q4_K => (512, 0, 64, 64),
            Format::Q5_K => (512, 128, 64, 64),
            Format::Q6_K => (512, 256, 64, 32),
        };
        Self {
            quants,
            high,
            scales,
            head,
        }
    }

    pub(super) const fn unit(self) -> usize {
        self.quants + self.high + self.scales
    }

    /// Where the head and the unit itself begin in their tile.
    const fn places(self, unit: usize) -> (usize, usize) {
        if self.head == 0 {
            return (0, unit * self.unit());
        }
        let head = unit / 4 * (self.head + 4 * self.unit());
        (head, head + self.head + unit % 4 * self.unit())
    }

    /// Bytes of a tile of `columns`, a multiple of `UNIT`.
    pub(super) const fn tile_bytes(self, columns: usize) -> usize {
        columns / UNIT * self.unit() + columns / 256 * self.head
    }
}

/// Columns rounded up to whole units.
pub(super) const fn padded(columns: usize) -> usize {
    columns.next_multiple_of(UNIT)
}

/// Writes one tile: `rows` are at most 16 rows of `columns` values as their file stores them, `out` has
/// `tile_bytes`. Rows and columns that do not exist become zeros.
pub(super) fn repack(format: Format, columns: usize, rows: &[u8], out: &mut [u8]) {
    out.fill(0);
    let layout = Layout::of(format);
    match format {
        Format::F32 => repack_values::<4>(rows, columns, out),
        Format::F16 | Format::BF16 => repack_values::<2>(rows, columns, out),
        _ => {
            let rows = quants::unpack(format, columns, rows);
            for unit in 0..padded(columns) / UNIT {
                let (head, at) = layout.places(unit);
                let (quants, rest) = out[at..at + layout.unit()].split_at_mut(layout.quants);
                let (high, scales) = rest.split_at_mut(layout.high);
                pack_quants(&rows, unit, quants, high);
                scales.copy_from_slice(&rows.scales[unit * layout.scales..][..layout.scales]);
                if layout.head > 0 && unit % 4 == 0 {
                    let from = &rows.heads[unit / 4 * layout.head..][..layout.head];
                    out[head..head + layout.head].copy_from_slice(from);
                }
            }
        }
    }
}

/// The (row, column within the unit) of the value that lane `lane` holds in step `step` as half `half` of pair `pair`.
const fn place(lane: usize, step: usize, pair: usize, half: usize) -> (usize, usize) {
    (
        lane / 4 + pair % 2 * 8,
        16 * step + pair / 2 * 8 + 2 * (lane % 4) + half,
    )
}

/// Values of `N` bytes each, 32 of a lane in a unit: pieces of 16 bytes, lane beside lane.
fn repack_values<const N: usize>(rows: &[u8], columns: usize, out: &mut [u8]) {
    let per_piece = 16 / N;
    for (unit, out) in out.chunks_exact_mut(UNIT * TILE_ROWS * N).enumerate() {
        for (index, out) in out.chunks_exact_mut(N).enumerate() {
            let (piece, lane, within) = (
                index / per_piece / 32,
                index / per_piece % 32,
                index % per_piece,
            );
            let value = piece * per_piece + within;
            let (row, column) = place(lane, value / 8, value % 8 / 2, value % 2);
            let column = unit * UNIT + column;
            if column < columns
                && let Some(value) = rows
                    .get((row * columns + column) * N..)
                    .and_then(|rest| rest.get(..N))
            {
                out.copy_from_slice(value);
            }
        }
    }
}

fn pack_quants(rows: &Rows, unit: usize, quants: &mut [u8], high: &mut [u8]) {
    let value = |lane, step, pair, half| {
        let (row, column) = place(lane, step, pair, half);
        rows.quants[row * rows.columns + unit * UNIT + column]
    };
    for lane in 0..32 {
        let mut bits = 0_u64;
        for step in 0..4 {
            let mut word = 0_u32;
            for (pair, half) in (0..8).map(|n| (n / 2, n % 2)) {
                let quant = value(lane, step, pair, half);
                if quants.len() == 1024 {
                    quants[step / 2 * 512 + lane * 16 + step % 2 * 8 + 2 * pair + half] = quant;
                    continue;
                }
                word |= u32::from(quant & 15) << (4 * pair + 16 * half);
                let top = u64::from(quant >> 4);
                bits |= match high.len() {
                    128 => top << (4 * step + pair + 16 * half),
                    256 => top << (32 * (step / 2) + 2 * (4 * (step % 2) + pair) + 16 * half),
                    _ => 0,
                };
            }
            if quants.len() == 512 {
                quants[lane * 16 + step * 4..][..4].copy_from_slice(&word.to_le_bytes());
            }
        }
        let width = high.len() / 32;
        high[lane * width..][..width].copy_from_slice(&bits.to_le_bytes()[..width]);
    }
}
