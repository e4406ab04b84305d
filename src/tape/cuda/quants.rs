//! The integers and scales of stored blocks, taken apart; layouts as in ggml's `ggml-common.h`.

use super::tiles::{Layout, TILE_ROWS, UNIT, padded};
use crate::model::Format;

/// Up to 16 rows, taken apart.
pub(super) struct Rows {
    pub(super) columns: usize,
    /// (16, columns): unsigned, as stored; Q8_0 plus 128
    pub(super) quants: Vec<u8>,
    /// Units beside each other, each as a tile holds it.
    pub(super) scales: Vec<u8>,
    /// Of four units each (K formats).
    pub(super) heads: Vec<u8>,
}

/// Takes rows of `columns` values apart.
pub(super) fn unpack(format: Format, columns: usize, rows: &[u8]) -> Rows {
    let layout = Layout::of(format);
    let padded = padded(columns);
    let mut out = Rows {
        columns: padded,
        quants: vec![0; TILE_ROWS * padded],
        scales: vec![0; padded / UNIT * layout.scales],
        heads: vec![0; padded / 256 * layout.head],
    };
    for (row, bytes) in rows.chunks_exact(format.row_bytes(columns)).enumerate() {
        for (index, block) in bytes.chunks_exact(format.block_bytes()).enumerate() {
            let at = row * padded + index * format.block_len();
            let quants = &mut out.quants[at..at + format.block_len()];
            let (scales, heads) = (&mut out.scales, &mut out.heads);
            match format {
                Format::Q8_0 => {
                    put(scales, scale_at(row, index, 2), &block[..2]);
                    for (quant, byte) in quants.iter_mut().zip(&block[2..]) {
                        *quant = byte ^ 0x80;
                    }
                }
                Format::Q4_0 => {
                    put(scales, scale_at(row, index, 2), &block[..2]);
                    nibbles(&block[2..], quants);
                }
                Format::Q4_1 => {
                    put(scales, scale_at(row, index, 4), &block[..4]);
                    nibbles(&block[4..], quants);
                }
                Format::Q5_0 => {
                    put(scales, scale_at(row, index, 2), &block[..2]);
                    nibbles(&block[6..], quants);
                    fifth_bits(&block[2..6], quants);
                }
                Format::Q5_1 => {
                    put(scales, scale_at(row, index, 4), &block[..4]);
                    nibbles(&block[8..], quants);
                    fifth_bits(&block[4..8], quants);
                }
                Format::Q4_K | Format::Q5_K => {
                    put(heads, index * 64 + pair_at(row) * 4, &block[..4]);
                    for (sub, pair) in scales_and_minima(&block[4..16]).into_iter().enumerate() {
                        put(scales, scale_at(row, 8 * index + sub, 2), &pair);
                    }
                    let (high, low) =
                        block[16..].split_at(if format == Format::Q5_K { 32 } else { 0 });
                    for (sub, quants) in quants.as_chunks_mut::<32>().0.iter_mut().enumerate() {
                        let low = &low[sub / 2 * 32..][..32];
                        for (quant, low) in quants.iter_mut().zip(low) {
                            *quant = low >> (sub % 2 * 4) & 15;
                        }
                        for (quant, bits) in quants.iter_mut().zip(high) {
                            *quant |= (bits >> sub & 1) << 4;
                        }
                    }
                }
                Format::Q6_K => {
                    put(heads, index * 32 + pair_at(row) * 2, &block[208..210]);
                    for (part, scale) in block[192..208].iter().enumerate() {
                        let unit = 4 * index + part / 4;
                        put(scales, unit * 64 + pair_at(row) * 4 + part % 4, &[*scale]);
                    }
                    six_bits(&block[..128], &block[128..192], quants);
                }
                // Their values are moved as they are.
                Format::F32 | Format::F16 | Format::BF16 => {}
            }
        }
    }
    out
}

/// Rows g and g + 8 lie side by side.
const fn pair_at(row: usize) -> usize {
    row % 8 * 2 + row / 8
}

/// Where the scale of block `block` of 32 columns lies, `bytes` each, two blocks a unit.
const fn scale_at(row: usize, block: usize, bytes: usize) -> usize {
    block / 2 * (32 * bytes) + (pair_at(row) * 2 + block % 2) * bytes
}

fn put(to: &mut [u8], at: usize, bytes: &[u8]) {
    to[at..at + bytes.len()].copy_from_slice(bytes);
}

/// The low nibbles of 16 bytes, then the high ones.
fn nibbles(bytes: &[u8], quants: &mut [u8]) {
    let (low, high) = quants.split_at_mut(16);
    for ((byte, low), high) in bytes.iter().zip(low).zip(high) {
        *low = byte & 15;
        *high = byte >> 4;
    }
}

/// Bit `i` of four bytes is the fifth of quant `i`.
fn fifth_bits(high: &[u8], quants: &mut [u8]) {
    for (byte, quants) in high.iter().zip(quants.as_chunks_mut::<8>().0) {
        // Byte `i` of the word has bit `i` alone, then 16 where it is set.
        let bits = (u64::from(*byte) * 0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
        let fifths = (bits + 0x7f7f_7f7f_7f7f_7f7f) >> 3 & 0x1010_1010_1010_1010;
        *quants = (u64::from_le_bytes(*quants) | fifths).to_le_bytes();
    }
}

/// Eight pairs of 6-bit numbers from twelve bytes.
fn scales_and_minima(packed: &[u8]) -> [[u8; 2]; 8] {
    std::array::from_fn(|i| {
        if i < 4 {
            [packed[i] & 63, packed[i + 4] & 63]
        } else {
            let low = packed[i + 4];
            [
                low & 15 | packed[i - 4] >> 6 << 4,
                low >> 4 | packed[i] >> 6 << 4,
            ]
        }
    })
}

/// 256 quants of Q6_K: 128 at a time, in four runs of 32.
fn six_bits(low: &[u8], high: &[u8], quants: &mut [u8]) {
    for (index, quants) in quants.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (half, run) = (index / 4, index % 4);
        let low = &low[64 * half + 32 * (run % 2)..][..32];
        let high = &high[32 * half..][..32];
        for ((quant, low), high) in quants.iter_mut().zip(low).zip(high) {
            *quant = low >> (4 * (run / 2)) & 15 | (high >> (2 * run) & 3) << 4;
        }
    }
}
