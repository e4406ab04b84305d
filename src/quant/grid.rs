//! The formats whose magnitudes are rows of a grid, four or eight values at a time, and whose signs are apart.
//!
//! Kernels get codes of four bits, a magnitude and its sign, because one lane has no whole row of a grid. A matrix is
//! therefore larger on a GPU than in its file.
#![allow(clippy::inline_always)] // an executor's vector instructions reach only what is inlined into it

use super::block::{Block, Factors, split};
use super::codebook::{OF_BYTES, for_kernels};
use super::grids;
use super::layout::Layout;
use super::long::Long;
use super::recipe;
use super::rows::Destination;
use super::vectors::Vectors;

/// The rows of a grid: `V` magnitudes, each an index of `bits` bits.
const fn rows<const N: usize, const V: usize>(
    grid: &[u16; N],
    magnitudes: &[u8],
    bits: usize,
) -> [[u8; V]; N] {
    let mut rows = [[0; V]; N];
    let mut at = 0;
    while at < N * V {
        let shift = bits * (V - 1 - at % V);
        let index = grid[at / V] as usize >> shift & ((1 << bits) - 1);
        rows[at / V][at % V] = magnitudes[index];
        at += 1;
    }
    rows
}

/// Gives magnitudes their signs: bit `i % 8` of byte `i / 8` makes value `i` negative.
#[inline(always)]
fn signed(magnitudes: &[u8; 256], signs: &[u8; 32]) -> [i8; 256] {
    let mut integers = [0; 256];
    let eights = magnitudes.as_chunks::<8>().0.iter().zip(signs);
    for (to, (eight, signs)) in integers.as_chunks_mut::<8>().0.iter_mut().zip(eights) {
        for (i, (integer, magnitude)) in to.iter_mut().zip(eight).enumerate() {
            let negative = if signs & 1 << i == 0 { 0 } else { 0xff };
            *integer = (magnitude ^ negative).wrapping_sub(negative).cast_signed();
        }
    }
    integers
}

/// As `signed` does, in vectors.
#[inline(always)]
fn with_signs<V: Vectors>(vectors: V, magnitudes: [u8; 256], signs: [u8; 32]) -> [V::Bytes; 4] {
    let [a, b, c, d]: [[u8; 64]; 4] = pulp::cast(magnitudes);
    let [of_a, of_b, of_c, of_d]: [[[u8; 4]; 2]; 4] = pulp::cast(signs);
    let bits = |signs: [[u8; 4]; 2]| signs.map(u32::from_le_bytes);
    [
        vectors.negate(vectors.load(&a), bits(of_a)),
        vectors.negate(vectors.load(&b), bits(of_b)),
        vectors.negate(vectors.load(&c), bits(of_c)),
        vectors.negate(vectors.load(&d), bits(of_d)),
    ]
}

/// The scales of groups: odd numbers, of which a byte has two.
#[inline(always)]
fn odd_scales<const BYTES: usize, const GROUPS: usize>(packed: &[u8; BYTES]) -> [u8; GROUPS] {
    const { assert!(GROUPS == 2 * BYTES) };
    let mut scales = [0; GROUPS];
    for (group, scale) in scales.iter_mut().enumerate() {
        *scale = 2 * (packed[group / 2] >> (4 * (group % 2)) & 15) + 1;
    }
    scales
}

/// The scales of the groups of a block. The grid's values stand for a fraction of themselves, a power of two: all
/// products are exact, in any order.
#[inline(always)]
fn scaled<const GROUPS: usize>(half: f32, groups: [u8; GROUPS], fraction: f32) -> Factors {
    let mut factors = Factors::of_one(half * fraction, 0.0);
    for (to, group) in factors.scales.iter_mut().zip(groups) {
        *to = group.cast_signed();
    }
    factors
}

/// Writes the half and the scales of a block, and the codes of its integers.
fn put<const GROUPS: usize>(
    half: [u8; 2],
    groups: [u8; GROUPS],
    integers: [i8; 256],
    code: impl Fn(i8) -> u8,
    to: &mut Destination<'_, 256>,
) {
    to.head(&half);
    for (number, group) in groups.into_iter().enumerate() {
        to.scale(number, &[group]);
    }
    *to.quants = for_kernels(integers.map(code));
}

/// Odd numbers, eight times as large: kernels then round less.
static ROWS_OF_IQ3_S: [[u8; 4]; 512] = rows(&grids::IQ3_S, &[8, 24, 40, 56, 72, 88, 104, 120], 3);

pub(super) struct IQ3_S;
impl IQ3_S {
    /// The magnitudes and the signs.
    #[inline(always)]
    fn magnitudes(block: &[u8; 110]) -> ([u8; 256], [u8; 32]) {
        let (_, rest) = split::<2, 108, 110>(block);
        let (low, rest) = split::<64, 44, 108>(rest);
        let (high, rest) = split::<8, 36, 44>(rest);
        let (signs, _) = split::<32, 4, 36>(rest);
        let mut magnitudes = [0; 256];
        let groups = magnitudes.as_chunks_mut::<32>().0.iter_mut().zip(high);
        for ((group, high), low) in groups.zip(low.as_chunks::<8>().0) {
            let fours = group.as_chunks_mut::<4>().0.iter_mut().zip(low);
            for (i, (four, low)) in fours.enumerate() {
                let ninth = usize::from(high >> i & 1);
                *four = ROWS_OF_IQ3_S[usize::from(*low) | ninth << 8];
            }
        }
        (magnitudes, *signs)
    }

    #[inline(always)]
    fn groups(block: &[u8; 110]) -> [u8; 8] {
        let (_, packed) = split::<106, 4, 110>(block);
        odd_scales(packed)
    }
}
impl Block<110, 256, 1> for IQ3_S {
    const LAYOUT: Layout = OF_BYTES;
    const RANDOM: recipe::Scales = recipe::Scales {
        at: 0,
        spread: 140.0,
        minimum: 0.0,
    };

    #[inline(always)]
    fn integers(block: &[u8; 110]) -> [i8; 256] {
        let (magnitudes, signs) = Self::magnitudes(block);
        signed(&magnitudes, &signs)
    }

    #[inline(always)]
    fn factors(block: &[u8; 110], [scale]: [f32; 1]) -> Factors {
        scaled(scale, Self::groups(block), 0.125)
    }

    fn take_apart(block: &[u8; 110], to: &mut Destination<'_, 256>) {
        // Every sixteenth number from -120 to 120.
        let code = |integer: i8| (integer.cast_unsigned() ^ 0x80) / 16;
        let half = [block[0], block[1]];
        put(half, Self::groups(block), Self::integers(block), code, to);
    }
}
impl Long<110, 1> for IQ3_S {
    #[inline(always)]
    fn unpack<V: Vectors>(vectors: V, block: &[u8; 110]) -> [V::Bytes; 4] {
        let (magnitudes, signs) = Self::magnitudes(block);
        with_signs(vectors, magnitudes, signs)
    }
}

static ROWS_OF_IQ3_XXS: [[u8; 4]; 256] = rows(&grids::IQ3_XXS, &[4, 12, 20, 28, 36, 44, 52, 62], 3);

pub(super) struct IQ3_XXS;
impl IQ3_XXS {
    #[inline(always)]
    fn magnitudes(block: &[u8; 98]) -> [u8; 256] {
        let (_, rest) = split::<2, 96, 98>(block);
        let (indexes, _) = split::<64, 32, 96>(rest);
        let mut magnitudes = [0; 256];
        let fours = magnitudes.as_chunks_mut::<4>().0.iter_mut();
        for (four, index) in fours.zip(indexes) {
            *four = ROWS_OF_IQ3_XXS[usize::from(*index)];
        }
        magnitudes
    }

    /// The word of a group: four times seven signs, then four bits of a scale.
    #[inline(always)]
    fn word(block: &[u8; 98], group: usize) -> u32 {
        let (_, packed) = split::<66, 32, 98>(block);
        u32::from_le_bytes(packed.as_chunks().0[group])
    }

    #[inline(always)]
    fn odd_scales(block: &[u8; 98]) -> [u8; 8] {
        let mut scales = [0; 8];
        for (group, scale) in scales.iter_mut().enumerate() {
            *scale = 2 * (Self::word(block, group) >> 28).to_le_bytes()[0] + 1;
        }
        scales
    }

    /// The signs, of which an even number in eight is negative: the eighth follows from the others.
    #[inline(always)]
    fn signs(block: &[u8; 98]) -> [u8; 32] {
        let mut signs = [0; 32];
        for (at, to) in signs.iter_mut().enumerate() {
            let seven = (Self::word(block, at / 4) >> (7 * (at % 4)) & 127).to_le_bytes()[0];
            let folded = seven ^ seven >> 4;
            let folded = folded ^ folded >> 2;
            *to = seven | (folded ^ folded >> 1) << 7;
        }
        signs
    }
}
impl Block<98, 256, 1> for IQ3_XXS {
    const LAYOUT: Layout = OF_BYTES;
    const RANDOM: recipe::Scales = recipe::Scales {
        at: 0,
        spread: 142.0,
        minimum: 0.0,
    };

    #[inline(always)]
    fn integers(block: &[u8; 98]) -> [i8; 256] {
        signed(&Self::magnitudes(block), &Self::signs(block))
    }

    #[inline(always)]
    fn factors(block: &[u8; 98], [scale]: [f32; 1]) -> Factors {
        scaled(scale, Self::odd_scales(block), 0.25)
    }

    fn take_apart(block: &[u8; 98], to: &mut Destination<'_, 256>) {
        // Every eighth number from -60 to 60, except that the outermost are 62.
        let code = |integer: i8| (integer + 64).cast_unsigned() / 8;
        let (half, integers) = ([block[0], block[1]], Self::integers(block));
        put(half, Self::odd_scales(block), integers, code, to);
    }
}
impl Long<98, 1> for IQ3_XXS {
    #[inline(always)]
    fn unpack<V: Vectors>(vectors: V, block: &[u8; 98]) -> [V::Bytes; 4] {
        with_signs(vectors, Self::magnitudes(block), Self::signs(block))
    }
}

static ROWS_OF_IQ2_S: [[u8; 8]; 1024] = rows(&grids::IQ2_S, &[8, 25, 43], 2);

/// Files named IQ3_XXS have matrices of this format, too.
pub(super) struct IQ2_S;
impl IQ2_S {
    /// The magnitudes and the signs.
    #[inline(always)]
    fn magnitudes(block: &[u8; 82]) -> ([u8; 256], [u8; 32]) {
        let (_, rest) = split::<2, 80, 82>(block);
        let (low, rest) = split::<32, 48, 80>(rest);
        let (signs, rest) = split::<32, 16, 48>(rest);
        let (high, _) = split::<8, 8, 16>(rest);
        let mut magnitudes = [0; 256];
        let groups = magnitudes.as_chunks_mut::<32>().0.iter_mut().zip(high);
        for ((group, high), low) in groups.zip(low.as_chunks::<4>().0) {
            let eights = group.as_chunks_mut::<8>().0.iter_mut().zip(low);
            for (i, (eight, low)) in eights.enumerate() {
                let above = usize::from(high >> (2 * i) & 3);
                *eight = ROWS_OF_IQ2_S[usize::from(*low) | above << 8];
            }
        }
        (magnitudes, *signs)
    }

    #[inline(always)]
    fn groups(block: &[u8; 82]) -> [u8; 16] {
        let (_, packed) = split::<74, 8, 82>(block);
        odd_scales(packed)
    }
}
impl Block<82, 256, 1> for IQ2_S {
    const LAYOUT: Layout = Layout {
        scales: 64,
        block_columns: Some(16),
        ..OF_BYTES
    };
    const RANDOM: recipe::Scales = recipe::Scales {
        at: 0,
        spread: 56.4,
        minimum: 0.0,
    };

    #[inline(always)]
    fn integers(block: &[u8; 82]) -> [i8; 256] {
        let (magnitudes, signs) = Self::magnitudes(block);
        signed(&magnitudes, &signs)
    }

    #[inline(always)]
    fn factors(block: &[u8; 82], [scale]: [f32; 1]) -> Factors {
        scaled(scale, Self::groups(block), 0.125)
    }

    fn take_apart(block: &[u8; 82], to: &mut Destination<'_, 256>) {
        // 5 to 7 for -43, -25 and -8; 8 to 10 for 8, 25 and 43.
        let code = |integer: i8| (integer.cast_unsigned() ^ 0x80) / 17;
        let half = [block[0], block[1]];
        put(half, Self::groups(block), Self::integers(block), code, to);
    }
}
impl Long<82, 1> for IQ2_S {
    #[inline(always)]
    fn unpack<V: Vectors>(vectors: V, block: &[u8; 82]) -> [V::Bytes; 4] {
        let (magnitudes, signs) = Self::magnitudes(block);
        with_signs(vectors, magnitudes, signs)
    }
}
