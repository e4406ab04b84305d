//! The formats of 32 values with a scale, and some with a minimum.
#![allow(clippy::inline_always)] // an executor's vector instructions reach only what is inlined into it

use super::block::{Block, Factors, less, nibbles, split, two_blocks};
use super::layout::Layout;
use super::recipe;
use super::rows::Destination;
use super::short::Short;
use super::vectors::Vectors;

/// Nibbles with a scale for each block.
const OF_HALVES: Layout = Layout {
    scales: 64,
    block_columns: Some(32),
    ..Layout::NIBBLES
};

/// The layout of formats that also have a minimum.
const OF_PAIRS: Layout = Layout {
    scales: 128,
    has_minimum: true,
    ..OF_HALVES
};

pub(super) struct Q8_0;
impl Block<34, 32, 1> for Q8_0 {
    const LAYOUT: Layout = Layout {
        quants: 1024,
        ..OF_HALVES
    };
    const RANDOM: recipe::Scales = recipe::Scales {
        at: 0,
        spread: 74.0,
        minimum: 0.0,
    };

    #[inline(always)]
    fn integers([_, _, quants @ ..]: &[u8; 34]) -> [i8; 32] {
        less(*quants, 0)
    }

    #[inline(always)]
    fn factors(_: &[u8; 34], [scale]: [f32; 1]) -> Factors {
        Factors::of_one(scale, 0.0)
    }

    fn take_apart(block: &[u8; 34], to: &mut Destination<'_, 32>) {
        to.scale(0, &block[..2]);
        for (quant, byte) in to.quants.iter_mut().zip(&block[2..]) {
            *quant = byte ^ 0x80;
        }
    }
}
impl Short<34, 1> for Q8_0 {
    const SIGNED: bool = true;

    #[inline(always)]
    fn vector<V: Vectors>(vectors: V, [first, second]: [&[u8; 34]; 2]) -> V::Bytes {
        let [(_, first), (_, second)] = [split::<2, 32, 34>(first), split::<2, 32, 34>(second)];
        vectors.join(first, second)
    }
}

/// Adds a fifth bit to each nibble: bit `i` of `high` for value `i`.
#[inline(always)]
fn five_bits(low: &[u8; 16], high: [u8; 4]) -> [u8; 32] {
    let mut quants = nibbles(low);
    let high = u32::from_le_bytes(high);
    for (i, quant) in quants.iter_mut().enumerate() {
        *quant |= (high >> i & 1).to_le_bytes()[0] << 4;
    }
    quants
}

pub(super) struct Q4_0;
impl Block<18, 32, 1> for Q4_0 {
    const LAYOUT: Layout = OF_HALVES;
    const RANDOM: recipe::Scales = recipe::Scales {
        at: 0,
        spread: 4.6,
        minimum: 0.0,
    };

    #[inline(always)]
    fn integers([_, _, quants @ ..]: &[u8; 18]) -> [i8; 32] {
        less(nibbles(quants), 8)
    }

    #[inline(always)]
    fn factors(_: &[u8; 18], [scale]: [f32; 1]) -> Factors {
        Factors::of_one(scale, 0.0)
    }

    fn take_apart(block: &[u8; 18], to: &mut Destination<'_, 32>) {
        let (scale, quants) = split::<2, 16, 18>(block);
        to.scale(0, scale);
        *to.quants = nibbles(quants);
    }
}
impl Short<18, 1> for Q4_0 {
    const ZERO: u8 = 8;

    #[inline(always)]
    fn vector<V: Vectors>(vectors: V, [first, second]: [&[u8; 18]; 2]) -> V::Bytes {
        let [(_, first), (_, second)] = [split::<2, 16, 18>(first), split::<2, 16, 18>(second)];
        two_blocks(vectors, first, second)
    }
}

pub(super) struct Q4_1;
impl Block<20, 32, 2> for Q4_1 {
    const LAYOUT: Layout = OF_PAIRS;
    const RANDOM: recipe::Scales = recipe::Scales {
        at: 0,
        spread: 4.6,
        minimum: -7.5,
    };

    #[inline(always)]
    fn integers([_, _, _, _, quants @ ..]: &[u8; 20]) -> [i8; 32] {
        less(nibbles(quants), 0)
    }

    #[inline(always)]
    fn factors(_: &[u8; 20], [scale, minimum]: [f32; 2]) -> Factors {
        Factors::of_one(scale, minimum)
    }

    fn take_apart(block: &[u8; 20], to: &mut Destination<'_, 32>) {
        let (pair, quants) = split::<4, 16, 20>(block);
        to.scale(0, pair);
        *to.quants = nibbles(quants);
    }
}
impl Short<20, 2> for Q4_1 {
    #[inline(always)]
    fn vector<V: Vectors>(vectors: V, [first, second]: [&[u8; 20]; 2]) -> V::Bytes {
        let [(_, first), (_, second)] = [split::<4, 16, 20>(first), split::<4, 16, 20>(second)];
        two_blocks(vectors, first, second)
    }
}

pub(super) struct Q5_0;
impl Block<22, 32, 1> for Q5_0 {
    const LAYOUT: Layout = Layout {
        high: 128,
        ..OF_HALVES
    };
    const RANDOM: recipe::Scales = recipe::Scales {
        at: 0,
        spread: 9.2,
        minimum: 0.0,
    };

    #[inline(always)]
    fn integers([_, _, rest @ ..]: &[u8; 22]) -> [i8; 32] {
        let (high, quants) = split::<4, 16, 20>(rest);
        less(five_bits(quants, *high), 16)
    }

    #[inline(always)]
    fn factors(_: &[u8; 22], [scale]: [f32; 1]) -> Factors {
        Factors::of_one(scale, 0.0)
    }

    fn take_apart(block: &[u8; 22], to: &mut Destination<'_, 32>) {
        let (scale, rest) = split::<2, 20, 22>(block);
        let (high, quants) = split::<4, 16, 20>(rest);
        to.scale(0, scale);
        *to.quants = nibbles(quants);
        fifth_bits(*high, to.quants);
    }
}
impl Short<22, 1> for Q5_0 {
    const ZERO: u8 = 16;

    #[inline(always)]
    fn vector<V: Vectors>(vectors: V, [first, second]: [&[u8; 22]; 2]) -> V::Bytes {
        let [(_, first), (_, second)] = [split::<2, 20, 22>(first), split::<2, 20, 22>(second)];
        five_bits_of(vectors, [first, second])
    }
}

pub(super) struct Q5_1;
impl Block<24, 32, 2> for Q5_1 {
    const LAYOUT: Layout = Layout {
        high: 128,
        ..OF_PAIRS
    };
    const RANDOM: recipe::Scales = recipe::Scales {
        at: 0,
        spread: 9.2,
        minimum: -15.5,
    };

    #[inline(always)]
    fn integers([_, _, _, _, rest @ ..]: &[u8; 24]) -> [i8; 32] {
        let (high, quants) = split::<4, 16, 20>(rest);
        less(five_bits(quants, *high), 0)
    }

    #[inline(always)]
    fn factors(_: &[u8; 24], [scale, minimum]: [f32; 2]) -> Factors {
        Factors::of_one(scale, minimum)
    }

    fn take_apart(block: &[u8; 24], to: &mut Destination<'_, 32>) {
        let (pair, rest) = split::<4, 20, 24>(block);
        let (high, quants) = split::<4, 16, 20>(rest);
        to.scale(0, pair);
        *to.quants = nibbles(quants);
        fifth_bits(*high, to.quants);
    }
}
impl Short<24, 2> for Q5_1 {
    #[inline(always)]
    fn vector<V: Vectors>(vectors: V, [first, second]: [&[u8; 24]; 2]) -> V::Bytes {
        let [(_, first), (_, second)] = [split::<4, 20, 24>(first), split::<4, 20, 24>(second)];
        five_bits_of(vectors, [first, second])
    }
}

/// The integers of two blocks, each with the fifth bits first.
#[inline(always)]
fn five_bits_of<V: Vectors>(vectors: V, blocks: [&[u8; 20]; 2]) -> V::Bytes {
    let [(fifths, first), (others, second)] =
        [split::<4, 16, 20>(blocks[0]), split::<4, 16, 20>(blocks[1])];
    let bits = [u32::from_le_bytes(*fifths), u32::from_le_bytes(*others)];
    let low = two_blocks(vectors, first, second);
    vectors.or(low, vectors.spread(bits, 16))
}

/// Adds bit `i` of four bytes as the fifth bit of quant `i`. It uses whole words, because the calling code does not
/// vectorize.
fn fifth_bits(high: [u8; 4], quants: &mut [u8; 32]) {
    for (byte, quants) in high.iter().zip(quants.as_chunks_mut::<8>().0) {
        // Byte `i` of the word has only bit `i`, then 16 if that bit is set.
        let bits = (u64::from(*byte) * 0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
        let fifths = (bits + 0x7f7f_7f7f_7f7f_7f7f) >> 3 & 0x1010_1010_1010_1010;
        *quants = (u64::from_le_bytes(*quants) | fifths).to_le_bytes();
    }
}
