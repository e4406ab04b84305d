//! The K formats of two and three bits: blocks of 256 values in groups of 16.
#![allow(clippy::inline_always)] // an executor's vector instructions reach only what is inlined into it

use super::block::{Block, Factors, less, split};
use super::layout::Layout;
use super::long::Long;
use super::recipe;
use super::rows::Destination;
use super::vectors::Vectors;

/// Two bits a value, and one byte of scales for 16 of them.
const OF_TWO_BITS: Layout = Layout {
    quants: 256,
    scales: 64,
    block_columns: Some(16),
    ..Layout::NIBBLES
};

/// Unpacks two bits a value: a byte has values of four groups of 32, from its lowest bits up.
#[inline(always)]
fn two_bits(packed: &[u8; 64]) -> [u8; 256] {
    let mut quants = [0; 256];
    let halves = quants.as_chunks_mut::<128>().0;
    for (quants, packed) in halves.iter_mut().zip(packed.as_chunks::<32>().0) {
        let mut packed = *packed;
        for group in quants.as_chunks_mut::<32>().0 {
            for (quant, packed) in group.iter_mut().zip(&mut packed) {
                *quant = *packed & 3;
                // Vectors of bytes can only be shifted by a constant.
                *packed >>= 2;
            }
        }
    }
    quants
}

/// Both halves of the block are at its end.
pub(super) struct Q2_K;
impl Block<84, 256, 2> for Q2_K {
    const LAYOUT: Layout = Layout {
        head: 64,
        has_minimum: true,
        ..OF_TWO_BITS
    };
    const RANDOM: recipe::Scales = recipe::Scales {
        at: 80,
        spread: 13.9,
        minimum: 1.5,
    };
    const HALVES: usize = 80;

    #[inline(always)]
    fn integers(block: &[u8; 84]) -> [i8; 256] {
        let (_, rest) = split::<16, 68, 84>(block);
        let (packed, _) = split::<64, 4, 68>(rest);
        less(two_bits(packed), 0)
    }

    #[inline(always)]
    fn factors(block: &[u8; 84], [scale, minimum]: [f32; 2]) -> Factors {
        let (packed, _) = split::<16, 68, 84>(block);
        let (mut scales, mut minima) = ([0; 16], [0; 16]);
        for ((scale, least), both) in scales.iter_mut().zip(&mut minima).zip(packed) {
            (*scale, *least) = ((both & 15).cast_signed(), both >> 4);
        }
        Factors {
            scale,
            scales,
            minimum,
            minima,
        }
    }

    fn take_apart(block: &[u8; 84], to: &mut Destination<'_, 256>) {
        let (scales, rest) = split::<16, 68, 84>(block);
        let (packed, halves) = split::<64, 4, 68>(rest);
        to.head(halves);
        for (number, both) in scales.iter().enumerate() {
            to.scale(number, &[*both]);
        }
        *to.quants = two_bits(packed);
    }
}
impl Long<84, 2> for Q2_K {
    /// 3 times 15.
    const ARE_SMALL: bool = true;

    #[inline(always)]
    fn unpack<V: Vectors>(vectors: V, block: &[u8; 84]) -> [V::Bytes; 4] {
        let (_, rest) = split::<16, 68, 84>(block);
        let (packed, _) = split::<64, 4, 68>(rest);
        two_bits_of(vectors, packed)
    }
}

/// The two bits of each value, in the order of `two_bits`.
#[inline(always)]
fn two_bits_of<V: Vectors>(vectors: V, packed: &[u8; 64]) -> [V::Bytes; 4] {
    let (first, second) = split::<32, 32, 64>(packed);
    let [first, second] = [vectors.join(first, first), vectors.join(second, second)];
    [
        vectors.right(first, [0, 0, 2, 2], 3),
        vectors.right(first, [4, 4, 6, 6], 3),
        vectors.right(second, [0, 0, 2, 2], 3),
        vectors.right(second, [4, 4, 6, 6], 3),
    ]
}

/// The integers, plus 4. A byte of `high` has the third bits of eight groups of 32, from its lowest bit up.
#[inline(always)]
fn three_bits(high: &[u8; 32], packed: &[u8; 64]) -> [u8; 256] {
    let (mut high, mut quants) = (*high, two_bits(packed));
    for group in quants.as_chunks_mut::<32>().0 {
        for (quant, high) in group.iter_mut().zip(&mut high) {
            *quant |= (*high & 1) << 2;
            *high >>= 1;
        }
    }
    quants
}

/// The scales of the sixteen groups. Each has 6 bits and an offset of 32. Four bits are in the nibbles of the first
/// eight bytes: the low nibbles, then the high ones. The upper two bits are in the last four bytes.
#[inline(always)]
fn group_scales(packed: &[u8; 12]) -> [i8; 16] {
    let (low, high) = split::<8, 4, 12>(packed);
    let mut scales = [0; 16];
    for (group, scale) in scales.iter_mut().enumerate() {
        let low = low[group % 8] >> (4 * (group / 8)) & 15;
        let high = high[group % 4] >> (2 * (group / 4)) & 3;
        *scale = (low | high << 4).cast_signed() - 32;
    }
    scales
}

/// The half of the block is at its end.
pub(super) struct Q3_K;
impl Block<110, 256, 1> for Q3_K {
    const LAYOUT: Layout = Layout {
        high: 128,
        head: 32,
        ..OF_TWO_BITS
    };
    const RANDOM: recipe::Scales = recipe::Scales {
        at: 108,
        spread: 43.3,
        minimum: 0.0,
    };
    const HALVES: usize = 108;

    #[inline(always)]
    fn integers(block: &[u8; 110]) -> [i8; 256] {
        let (high, rest) = split::<32, 78, 110>(block);
        let (packed, _) = split::<64, 14, 78>(rest);
        less(three_bits(high, packed), 4)
    }

    #[inline(always)]
    fn factors(block: &[u8; 110], [scale]: [f32; 1]) -> Factors {
        let (_, rest) = split::<96, 14, 110>(block);
        let (packed, _) = split::<12, 2, 14>(rest);
        Factors {
            scales: group_scales(packed),
            ..Factors::of_one(scale, 0.0)
        }
    }

    fn take_apart(block: &[u8; 110], to: &mut Destination<'_, 256>) {
        let (high, rest) = split::<32, 78, 110>(block);
        let (packed, rest) = split::<64, 14, 78>(rest);
        let (scales, half) = split::<12, 2, 14>(rest);
        to.head(half);
        for (number, scale) in group_scales(scales).into_iter().enumerate() {
            to.scale(number, &scale.to_le_bytes());
        }
        *to.quants = three_bits(high, packed);
    }
}
impl Long<110, 1> for Q3_K {
    /// 4 times 32.
    const ARE_SMALL: bool = true;

    #[inline(always)]
    fn unpack<V: Vectors>(vectors: V, block: &[u8; 110]) -> [V::Bytes; 4] {
        let (high, rest) = split::<32, 78, 110>(block);
        let (packed, _) = split::<64, 14, 78>(rest);
        let [a, b, c, d] = two_bits_of(vectors, packed);
        let high = vectors.join(high, high);
        // Group `i` has bit `i` of each byte.
        [
            raised(vectors, a, vectors.left(high, [2, 2, 1, 1], 4)),
            raised(vectors, b, vectors.right(high, [0, 0, 1, 1], 4)),
            raised(vectors, c, vectors.right(high, [2, 2, 3, 3], 4)),
            raised(vectors, d, vectors.right(high, [4, 4, 5, 5], 4)),
        ]
    }
}

/// The lower bits with the third ones, less 4.
#[inline(always)]
fn raised<V: Vectors>(vectors: V, low: V::Bytes, thirds: V::Bytes) -> V::Bytes {
    vectors.subtract(vectors.or(low, thirds), 4)
}
