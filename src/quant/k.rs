//! The K formats: blocks of 256 values in groups. The scales of groups are integers that share a scale.
#![allow(clippy::inline_always)] // an executor's vector instructions reach only what is inlined into it

use super::block::{Block, Factors, less, nibbles, split};
use super::layout::Layout;
use super::long::Long;
use super::recipe;
use super::rows::Destination;
use super::vectors::Vectors;

/// Nibbles; 32 of them share a 6-bit scale and a 6-bit minimum.
const OF_SIX_BITS: Layout = Layout {
    scales: 64,
    head: 64,
    block_columns: Some(32),
    has_minimum: true,
    ..Layout::NIBBLES
};

/// Adds the lowest `bits` bits of each byte of `high` above a nibble, and removes them from `high`. Vectors of bytes
/// can only be shifted by a constant.
#[inline(always)]
fn raise<const N: usize>(nibbles: &mut [u8; N], high: &mut [u8; N], bits: u32) {
    for (nibble, high) in nibbles.iter_mut().zip(high) {
        *nibble |= *high << (8 - bits) >> (4 - bits);
        *high >>= bits;
    }
}

/// The 6-bit scales and minima of the eight groups of a block, then zeros.
///
/// Four of each are in bytes 0..4 and 4..8. The other four are in the nibbles of 8..12, with their upper two bits in
/// the first eight bytes.
#[inline(always)]
fn group_scales(packed: &[u8; 12]) -> ([u8; 16], [u8; 16]) {
    let words = packed.as_chunks().0;
    let [scale, min, both] = [0, 1, 2].map(|at| u32::from_le_bytes(words[at]));
    let scales = both & 0x0f0f_0f0f | scale >> 2 & 0x3030_3030;
    let minima = both >> 4 & 0x0f0f_0f0f | min >> 2 & 0x3030_3030;
    // As words, because the compiler would shift single bytes out of a longer integer.
    let sixteen = |first: u32, second: u32| {
        let word = u64::from(first & 0x3f3f_3f3f) | u64::from(second) << 32;
        pulp::cast([word.to_le(), 0])
    };
    (sixteen(scale, scales), sixteen(min, minima))
}

/// Writes two halves and their 6-bit numbers, which are unpacked to bytes.
fn put_scales([d0, d1, m0, m1, packed @ ..]: &[u8; 16], to: &mut Destination<'_, 256>) {
    to.head(&[*d0, *d1, *m0, *m1]);
    let (scales, minima) = group_scales(packed);
    for (number, pair) in scales.into_iter().zip(minima).take(8).enumerate() {
        to.scale(number, &[pair.0, pair.1]);
    }
}

pub(super) struct Q4_K;
impl Block<144, 256, 2> for Q4_K {
    const LAYOUT: Layout = OF_SIX_BITS;
    const RANDOM: recipe::Scales = recipe::Scales {
        at: 0,
        spread: 170.0,
        minimum: 7.5,
    };

    #[inline(always)]
    fn integers(block: &[u8; 144]) -> [i8; 256] {
        let (_, low) = split::<16, 128, 144>(block);
        let mut quants = [0; 256];
        let parts = quants.as_chunks_mut::<64>().0;
        for (quants, low) in parts.iter_mut().zip(low.as_chunks::<32>().0) {
            *quants = nibbles(low);
        }
        less(quants, 0)
    }

    #[inline(always)]
    fn factors(block: &[u8; 144], halves: [f32; 2]) -> Factors {
        let ([_, _, _, _, packed @ ..], _) = split::<16, 128, 144>(block);
        of_six_bits(packed, halves)
    }

    fn take_apart(block: &[u8; 144], to: &mut Destination<'_, 256>) {
        let (scales, low) = split::<16, 128, 144>(block);
        put_scales(scales, to);
        let parts = to.quants.as_chunks_mut::<64>().0;
        for (quants, low) in parts.iter_mut().zip(low.as_chunks::<32>().0) {
            *quants = nibbles(low);
        }
    }
}
impl Long<144, 2> for Q4_K {
    /// 15 times 63.
    const ARE_SMALL: bool = true;

    #[inline(always)]
    fn unpack<V: Vectors>(vectors: V, block: &[u8; 144]) -> [V::Bytes; 4] {
        let (_, low) = split::<16, 128, 144>(block);
        let parts = low.as_chunks().0;
        [
            two_groups(vectors, &parts[0]),
            two_groups(vectors, &parts[1]),
            two_groups(vectors, &parts[2]),
            two_groups(vectors, &parts[3]),
        ]
    }
}

/// The low nibbles of 32 bytes, then the high ones.
#[inline(always)]
fn two_groups<V: Vectors>(vectors: V, low: &[u8; 32]) -> V::Bytes {
    vectors.right(vectors.join(low, low), [0, 0, 4, 4], 0x0f)
}

pub(super) struct Q5_K;
impl Block<176, 256, 2> for Q5_K {
    const LAYOUT: Layout = Layout {
        high: 128,
        ..OF_SIX_BITS
    };
    const RANDOM: recipe::Scales = recipe::Scales {
        at: 0,
        spread: 340.0,
        minimum: 15.5,
    };

    #[inline(always)]
    fn integers(block: &[u8; 176]) -> [i8; 256] {
        let (_, rest) = split::<16, 160, 176>(block);
        let (high, low) = split::<32, 128, 160>(rest);
        let (mut high, mut quants) = (*high, [0; 256]);
        let parts = quants.as_chunks_mut::<64>().0;
        for (quants, low) in parts.iter_mut().zip(low.as_chunks::<32>().0) {
            *quants = nibbles(low);
            for group in quants.as_chunks_mut::<32>().0 {
                raise(group, &mut high, 1);
            }
        }
        less(quants, 0)
    }

    #[inline(always)]
    fn factors(block: &[u8; 176], halves: [f32; 2]) -> Factors {
        let ([_, _, _, _, packed @ ..], _) = split::<16, 160, 176>(block);
        of_six_bits(packed, halves)
    }

    fn take_apart(block: &[u8; 176], to: &mut Destination<'_, 256>) {
        let (scales, rest) = split::<16, 160, 176>(block);
        let (high, low) = split::<32, 128, 160>(rest);
        put_scales(scales, to);
        let (mut high, parts) = (*high, to.quants.as_chunks_mut::<64>().0);
        for (quants, low) in parts.iter_mut().zip(low.as_chunks::<32>().0) {
            *quants = nibbles(low);
            for group in quants.as_chunks_mut::<32>().0 {
                raise(group, &mut high, 1);
            }
        }
    }
}
impl Long<176, 2> for Q5_K {
    #[inline(always)]
    fn unpack<V: Vectors>(vectors: V, block: &[u8; 176]) -> [V::Bytes; 4] {
        let (_, rest) = split::<16, 160, 176>(block);
        let (high, low) = split::<32, 128, 160>(rest);
        let high = vectors.join(high, high);
        let low = low.as_chunks().0;
        // Group `i` has bit `i` of each byte.
        [
            raised(vectors, &low[0], vectors.left(high, [4, 4, 3, 3], 0x10)),
            raised(vectors, &low[1], vectors.left(high, [2, 2, 1, 1], 0x10)),
            raised(vectors, &low[2], vectors.right(high, [0, 0, 1, 1], 0x10)),
            raised(vectors, &low[3], vectors.right(high, [2, 2, 3, 3], 0x10)),
        ]
    }
}

/// Nibbles as `two_groups` unpacks them, with their fifth bits.
#[inline(always)]
fn raised<V: Vectors>(vectors: V, low: &[u8; 32], fifths: V::Bytes) -> V::Bytes {
    vectors.or(two_groups(vectors, low), fifths)
}

/// The factors from both halves and the 6-bit numbers.
#[inline(always)]
fn of_six_bits(packed: &[u8; 12], [scale, minimum]: [f32; 2]) -> Factors {
    let (scales, minima) = group_scales(packed);
    Factors {
        scale,
        scales: pulp::cast(scales),
        minimum,
        minima,
    }
}

/// The half of the block is at its end.
pub(super) struct Q6_K;
impl Block<210, 256, 1> for Q6_K {
    const LAYOUT: Layout = Layout {
        high: 256,
        scales: 64,
        head: 32,
        block_columns: Some(16),
        ..Layout::NIBBLES
    };
    const RANDOM: recipe::Scales = recipe::Scales {
        at: 208,
        spread: 1370.0,
        minimum: 0.0,
    };
    const HALVES: usize = 208;

    #[inline(always)]
    fn integers(block: &[u8; 210]) -> [i8; 256] {
        let (low, rest) = split::<128, 82, 210>(block);
        let (high, _) = split::<64, 18, 82>(rest);
        let mut quants = [0; 256];
        // Two halves of 128 values; four values share a byte of the high bits.
        let halves = low.as_chunks::<64>().0.iter().zip(high.as_chunks::<32>().0);
        for ((low, high), quants) in halves.zip(quants.as_chunks_mut::<128>().0) {
            let mut high = *high;
            *quants = nibbles(low);
            for quarter in quants.as_chunks_mut::<32>().0 {
                raise(quarter, &mut high, 2);
            }
        }
        less(quants, 32)
    }

    #[inline(always)]
    fn factors(block: &[u8; 210], [scale]: [f32; 1]) -> Factors {
        let (_, rest) = split::<128, 82, 210>(block);
        let (_, [packed @ .., _, _]) = split::<64, 18, 82>(rest);
        let mut factors = Factors::of_one(scale, 0.0);
        for (to, scale) in factors.scales.iter_mut().zip(packed) {
            *to = scale.cast_signed();
        }
        factors
    }

    fn take_apart(block: &[u8; 210], to: &mut Destination<'_, 256>) {
        let (low, rest) = split::<128, 82, 210>(block);
        let (high, [scales @ .., d0, d1]) = split::<64, 18, 82>(rest);
        to.head(&[*d0, *d1]);
        for (number, scale) in scales.iter().enumerate() {
            to.scale(number, &[*scale]);
        }
        let halves = low.as_chunks::<64>().0.iter().zip(high.as_chunks::<32>().0);
        for ((low, high), quants) in halves.zip(to.quants.as_chunks_mut::<128>().0) {
            let mut high = *high;
            *quants = nibbles(low);
            for quarter in quants.as_chunks_mut::<32>().0 {
                raise(quarter, &mut high, 2);
            }
        }
    }
}
impl Long<210, 1> for Q6_K {
    #[inline(always)]
    fn unpack<V: Vectors>(vectors: V, block: &[u8; 210]) -> [V::Bytes; 4] {
        let (low, rest) = split::<128, 82, 210>(block);
        let (high, _) = split::<64, 18, 82>(rest);
        let (low, high) = (low.as_chunks().0, high.as_chunks().0);
        let [a, b] = six_bits(vectors, &low[0], &high[0]);
        let [c, d] = six_bits(vectors, &low[1], &high[1]);
        [a, b, c, d]
    }
}

/// The integers of half a block: four of them share a byte of the high bits.
#[inline(always)]
fn six_bits<V: Vectors>(vectors: V, low: &[u8; 64], high: &[u8; 32]) -> [V::Bytes; 2] {
    let (low, high) = (vectors.load(low), vectors.join(high, high));
    let first = vectors.right(low, [0; 4], 0x0f);
    let first = vectors.or(first, vectors.left(high, [4, 4, 2, 2], 0x30));
    let second = vectors.right(low, [4; 4], 0x0f);
    let second = vectors.or(second, vectors.right(high, [0, 0, 2, 2], 0x30));
    [vectors.subtract(first, 32), vectors.subtract(second, 32)]
}
