//! Converts weights to the layout of device memory.
//!
//! Repacking moves bits and never changes a value. The packed 6-bit scales of K formats become bytes.

use super::Format;
use super::layout::{TILE_ROWS, UNIT, padded};
use super::rows::TileRows;

/// Writes one tile. `rows` are at most 16 rows of `columns` values as their file stores them; `out` has `tile_bytes`.
/// Missing rows and columns become zero.
pub(super) fn repack(format: Format, columns: usize, rows: &[u8], out: &mut [u8]) {
    out.fill(0);
    let layout = format.about().layout;
    match layout.quants {
        4096 => repack_values::<4>(rows, columns, out),
        2048 => repack_values::<2>(rows, columns, out),
        _ => {
            let rows = taken_apart(format, columns, rows);
            for unit in 0..padded(columns) / UNIT {
                let (head, at) = layout.places(unit);
                let (quants, rest) = out[at..at + layout.unit()].split_at_mut(layout.quants);
                let (high, scales) = rest.split_at_mut(layout.high);
                pack_quants(&rows, unit, quants, high, layout.codes);
                scales.copy_from_slice(&rows.scales[unit * layout.scales..][..layout.scales]);
                if layout.head > 0 && unit % 4 == 0 {
                    let from = &rows.heads[unit / 4 * layout.head..][..layout.head];
                    out[head..head + layout.head].copy_from_slice(from);
                }
            }
        }
    }
}

fn taken_apart(format: Format, columns: usize, rows: &[u8]) -> TileRows {
    let about = format.about();
    let mut apart = TileRows::new(about.layout, columns);
    (about.take_apart)(rows, columns, &mut apart);
    apart
}

/// The index of a pair of neighbours among the 32 of a row.
///
/// A lane takes four steps through a unit. In each it holds two pairs of row `lane / 4`, eight columns apart, which
/// alternate with those of the row eight below.
const fn place(lane: usize, step: usize, pair: usize) -> usize {
    8 * step + 4 * pair + lane % 4
}

/// Repacks values of `N` bytes each. A lane has 32 of a unit, in pieces of 16 bytes; the pieces of all lanes are
/// adjacent.
fn repack_values<const N: usize>(rows: &[u8], columns: usize, out: &mut [u8]) {
    // A whole unit; missing rows and columns stay zero.
    let mut unit = vec![0; TILE_ROWS * UNIT * N];
    let mut firsts = (0..columns).step_by(UNIT);
    for out in out.chunks_exact_mut(UNIT * TILE_ROWS * N) {
        let first = firsts.next().unwrap_or(columns);
        let width = UNIT.min(columns - first);
        if width < UNIT {
            unit.fill(0);
        }
        for (to, row) in unit
            .chunks_exact_mut(UNIT * N)
            .zip(rows.chunks_exact(columns * N))
        {
            to[..width * N].copy_from_slice(&row[first * N..][..width * N]);
        }
        for (step, lane) in (0..4 * 32).map(|at| (at / 32, at % 32)) {
            for pair in 0..2 {
                let [upper, lower] = [lane / 4, lane / 4 + 8]
                    .map(|row| &unit[(row * UNIT + 2 * place(lane, step, pair)) * N..][..2 * N]);
                // The positions of two values of each row, among the eight values of a lane in a step.
                let value = 8 * step + 4 * pair;
                let per_piece = 16 / N;
                let at = (value / per_piece * 32 + lane) * 16 + value % per_piece * N;
                out[at..][..2 * N].copy_from_slice(upper);
                out[at + 2 * N..][..2 * N].copy_from_slice(lower);
            }
        }
    }
}

fn pack_quants(rows: &TileRows, unit: usize, quants: &mut [u8], high: &mut [u8], codes: bool) {
    // Each element holds two columns.
    let mut pairs = [[0_u32; UNIT / 2]; TILE_ROWS];
    for (pairs, row) in pairs.iter_mut().zip(rows.quants.chunks_exact(rows.columns)) {
        let row = row[unit * UNIT..][..UNIT].as_chunks().0;
        for (pair, bytes) in pairs.iter_mut().zip(row) {
            *pair = u16::from_le_bytes(*bytes).into();
        }
    }
    let width = high.len() / 32;
    for lane in 0..32 {
        let mut above = 0_u64;
        for step in 0..4 {
            let [upper, lower] = [lane / 4, lane / 4 + 8].map(|row| {
                pairs[row][place(lane, step, 0)] | pairs[row][place(lane, step, 1)] << 16
            });
            if quants.len() == 1024 {
                let pairs = [upper, lower, upper >> 16, lower >> 16];
                let to = quants[step / 2 * 512 + lane * 16 + step % 2 * 8..][..8].as_chunks_mut();
                for (to, pair) in to.0.iter_mut().zip(pairs) {
                    let [first, second, ..] = pair.to_le_bytes();
                    *to = [first, second];
                }
                continue;
            }
            let word = if codes {
                neighbours(upper) | neighbours(lower) << 8
            } else {
                let [a0, a2] = [even(upper), even(upper >> 16)];
                let [a1, a3] = [even(lower), even(lower >> 16)];
                let all = [a0, a1, a2, a3];
                if quants.len() == 256 {
                    let (low, high) = of_three_bits(all, step);
                    let at = lane * 8 + step / 2 * 4;
                    for (to, byte) in quants[at..][..4].iter_mut().zip(low.to_le_bytes()) {
                        *to |= byte;
                    }
                    above |= u64::from(high);
                    continue;
                }
                let (word, more) = match width {
                    4 => of_five_bits(all, step),
                    8 => of_six_bits(all, step % 2 == 1),
                    _ => (nibbles(all), 0),
                };
                above |= u64::from(more) << if width == 8 { step / 2 * 32 } else { 0 };
                word
            };
            quants[lane * 16 + step * 4..][..4].copy_from_slice(&word.to_le_bytes());
        }
        high[lane * width..][..width].copy_from_slice(&above.to_le_bytes()[..width]);
    }
}

/// Packs the nibbles of bytes 0 and 1 into byte 0, and those of bytes 2 and 3 into byte 2.
const fn neighbours(word: u32) -> u32 {
    (word | word >> 4) & 0x00ff_00ff
}

/// Moves bytes 0 and 1 into the halves of a word.
const fn even(pair: u32) -> u32 {
    pair & 0xff | (pair & 0xff00) << 8
}

/// The word of a step whose integers have four bits at most.
const fn nibbles([a0, a1, a2, a3]: [u32; 4]) -> u32 {
    a0 | a1 << 4 | a2 << 8 | a3 << 12
}

/// The part of a step in the word of two steps, and in the unit's word of high bits: the lower two bits and the third
/// one of each nibble. The steps lie between each other.
const fn of_three_bits(all: [u32; 4], step: usize) -> (u32, u32) {
    let word = nibbles(all);
    let low = (word & 0x3333_3333) << (2 * (step % 2));
    (low, (word >> 2 & 0x1111_1111) << step)
}

/// The word of a step, and its part of the unit's word of high bits. The order of pairs is that of `pair` in
/// `kernels/tile.cuh`.
fn of_five_bits([a0, a1, a2, a3]: [u32; 4], step: usize) -> (u32, u32) {
    let word = a0 | a1 << 5 | a2 << 10 | (a3 & 0x0001_0001) << 15;
    // Four bits in each half. Each step rotates the half by four, so two equal copies rotate into themselves.
    let above = a3 << 5 & 0x03c0_03c0;
    let [even, odd] = [above & 0xffff, above >> 16];
    let [even, odd] = [even, odd].map(|half| (half | half << 16) >> (4 * step) & 0xffff);
    (word, even | odd << 16)
}

/// As `of_five_bits`, but a word of high bits is for two steps; `second` says which.
const fn of_six_bits([a0, a1, a2, a3]: [u32; 4], second: bool) -> (u32, u32) {
    let word = a0 & 0x000f_000f | a1 << 4 | a2 << 10;
    let lacks = a0 >> 4 & 0x0003_0003;
    let above = if second {
        lacks | a3 << 10
    } else {
        lacks << 4 | (a3 & 0x0003_0003) << 2 | (a3 & 0x003c_003c) << 4
    };
    (word, above)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each value of a unit: its lane, step, pair and half, and its row and column, as in `kernels/tile.cuh`.
    fn values() -> impl Iterator<Item = ([usize; 4], usize, usize)> {
        (0..32 * 4 * 4 * 2).map(|at| {
            let (lane, step, pair, half) = (at / 32, at / 8 % 4, at / 2 % 4, at % 2);
            let column = 16 * step + pair / 2 * 8 + 2 * (lane % 4) + half;
            ([lane, step, pair, half], lane / 4 + pair % 2 * 8, column)
        })
    }

    #[test]
    fn values_are_repacked_for_kernels_and_missing_ones_are_zero() {
        let (rows, columns) = (13, 100);
        let value = |row: usize, column: usize| {
            let number = 1 + row * columns + column;
            u16::try_from(if row < rows && column < columns {
                number
            } else {
                0
            })
            .unwrap()
        };
        let stored: Vec<u8> = (0..rows * columns)
            .flat_map(|at| value(at / columns, at % columns).to_le_bytes())
            .collect();
        let mut tile = vec![0xff; Format::F16.about().layout.tile_bytes(padded(columns))];
        repack(Format::F16, columns, &stored, &mut tile);
        let tile = tile.as_chunks().0;
        for unit in 0..2 {
            for ([lane, step, pair, half], row, column) in values() {
                let at = unit * 1024 + (step * 32 + lane) * 8 + 2 * pair + half;
                let expected = value(row, unit * UNIT + column);
                assert_eq!(u16::from_le_bytes(tile[at]), expected, "{row}, {column}");
            }
        }
    }

    #[test]
    fn integers_are_repacked_for_kernels() {
        let columns = 256;
        for format in Format::ALL
            .into_iter()
            .filter(|format| format.block_len() > 1)
        {
            let layout = format.about().layout;
            let stored: Vec<u8> = (0..TILE_ROWS * format.row_bytes(columns))
                .map(|at| ((at * 2_654_435_761) >> 16).to_le_bytes()[0])
                .collect();
            let mut tile = vec![0; layout.tile_bytes(columns)];
            repack(format, columns, &stored, &mut tile);
            let rows = taken_apart(format, columns, &stored);
            for unit in 0..columns / UNIT {
                let tile = &tile[layout.places(unit).1..];
                let (quants, high) = tile.split_at(layout.quants);
                for ([lane, step, pair, half], row, column) in values() {
                    let of_value = step / 2 * 512 + lane * 16 + step % 2 * 8 + 2 * pair + half;
                    let whole = quants.get(of_value).copied().unwrap_or_default();
                    let of_step = layout.quants / 32 * lane + step * layout.quants / 512 * 4;
                    let word = quants[of_step..].first_chunk().unwrap();
                    let word = u32::from_le_bytes(*word);
                    let above = match layout.high {
                        128 => high[lane * 4..].first_chunk(),
                        256 => high[lane * 8 + step / 2 * 4..].first_chunk(),
                        _ => Some(&[0; 4]),
                    };
                    let above = u32::from_le_bytes(*above.unwrap());
                    // Some bits of a half of the word and of the high bits, from the first and from the second bit.
                    let some = |from: u32, first: usize, count: usize| {
                        from >> (16 * half + first) & ((1 << count) - 1)
                    };
                    let second = step % 2 == 1;
                    let found = match (layout.high, pair) {
                        _ if layout.quants == 256 => {
                            some(word, 4 * pair + step % 2 * 2, 2)
                                | some(above, 4 * pair + step, 1) << 2
                        }
                        _ if layout.codes => word >> (8 * pair + 4 * half) & 15,
                        _ if layout.quants == 1024 => u32::from(whole),
                        (0, _) => some(word, 4 * pair, 4),
                        (128, 0..3) => some(word, 5 * pair, 5),
                        (128, _) => {
                            let above = above >> (16 * half) & 0xffff;
                            let turned = (above << 16 | above) >> (16 - 4 * step);
                            some(word, 15, 1) | (turned >> 6 & 15) << 1
                        }
                        (_, 0) => {
                            some(word, 0, 4) | some(above, if second { 0 } else { 4 }, 2) << 4
                        }
                        (_, 1) => some(word, 4, 6),
                        (_, 2) => some(word, 10, 6),
                        _ if second => some(above, 10, 6),
                        _ => some(above, 2, 2) | some(above, 6, 4) << 2,
                    };
                    let expected = rows.quants[row * columns + unit * UNIT + column];
                    assert_eq!(found, u32::from(expected), "{format:?} {row}, {column}");
                }
            }
        }
    }
}
