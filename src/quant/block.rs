//! Blocks of values that share scales: their integers, what belongs to each group of these, and how both become values, in
//! the operations and the order that the Python package `gguf` uses, so that every bit agrees; the layouts are those of
//! ggml's `ggml-common.h`.
//!
//! The loops run over arrays of known length, so that they vectorize for whatever instructions the
//! caller has enabled: each function is inlined into it.
#![allow(clippy::inline_always)] // an executor's vector instructions reach only what is inlined into it

use std::hint::black_box;

use super::halves::{VECTOR, vector};
use super::layout::Layout;
use super::rows::{Destination, Rows};
use super::{About, random};

/// Blocks whose halves are converted at once: one conversion alone takes as long as ten values.
const AT_ONCE: usize = VECTOR / 2;
/// A block has 256 values, by sixteens.
const MOST_GROUPS: usize = 16;

/// A format's blocks of `B` bytes, of `N` values each, which begin with `H` halves.
pub(super) trait Block<const B: usize, const N: usize, const H: usize> {
    /// Blocks lie so in device memory.
    const LAYOUT: Layout;
    const RANDOM: random::Scales;

    /// A block's integers, in the order of its values.
    fn integers(block: &[u8; B]) -> [i8; N];

    /// What belongs to its groups, by the values of its halves.
    fn scales(block: &[u8; B], halves: [f32; H]) -> Scales;

    /// Takes a block's integers and scales apart.
    fn take_apart(block: &[u8; B], to: &mut Destination<'_, N>);
}

/// What integers of a group are multiplied by, and what is added to the product; of the most groups that a block has.
pub(super) struct Scales {
    pub(super) scale: [f32; MOST_GROUPS],
    pub(super) minimum: [f32; MOST_GROUPS],
}

impl Scales {
    /// What the only group has.
    #[inline(always)]
    pub(super) fn of_one(scale: f32, minimum: f32) -> Self {
        let mut scales = Self::default();
        (scales.scale[0], scales.minimum[0]) = (scale, minimum);
        scales
    }
}

impl Default for Scales {
    #[inline(always)]
    fn default() -> Self {
        Self {
            scale: [0.0; MOST_GROUPS],
            minimum: [0.0; MOST_GROUPS],
        }
    }
}

pub(super) const fn about<F: Block<B, N, H>, const B: usize, const N: usize, const H: usize>(
    _: &F,
) -> About {
    About {
        values: N,
        bytes: B,
        layout: F::LAYOUT,
        random: random::Block::Scales(F::RANDOM),
        take_apart: take_apart::<F, B, N, H>,
    }
}

/// Takes rows of so many columns apart, one after the other.
fn take_apart<F: Block<B, N, H>, const B: usize, const N: usize, const H: usize>(
    bytes: &[u8],
    columns: usize,
    rows: &mut Rows,
) {
    let blocks = bytes.as_chunks::<B>().0;
    for (row, blocks) in blocks.chunks_exact(columns / N).enumerate() {
        for (index, block) in blocks.iter().enumerate() {
            F::take_apart(block, &mut rows.destination(row, index));
        }
    }
}

/// What has blocks is decoded by groups.
#[inline(always)]
pub(super) fn numbers<F>(_: &F, _: &[u8], _: impl FnMut(&[f32])) {}

/// Hands on the values of each group.
#[inline(always)]
pub(super) fn decode<F: Block<B, N, H>, const B: usize, const N: usize, const H: usize>(
    of: &F,
    bytes: &[u8],
    mut sink: impl FnMut(&[f32]),
) {
    groups(
        of,
        bytes,
        #[inline(always)]
        |integers, scale, minimum| {
            let mut values = [0.0; 32];
            let values = &mut values[..integers.len()];
            for (value, integer) in values.iter_mut().zip(integers) {
                // Rounded after each operation.
                *value = scale * f32::from(*integer);
                if F::LAYOUT.has_minimum {
                    *value += minimum;
                }
            }
            sink(values);
        },
    );
}

/// Hands on the integers of each group, 16 or 32 of them, with their scale and their minimum, which is zero where the format has
/// none.
#[inline(always)]
pub(super) fn groups<F: Block<B, N, H>, const B: usize, const N: usize, const H: usize>(
    _: &F,
    bytes: &[u8],
    mut sink: impl FnMut(&[i8], f32, f32),
) {
    let group = match F::LAYOUT.block_columns {
        Some(columns) => columns,
        None => N,
    };
    let mut rest = bytes.as_chunks::<B>().0;
    while !rest.is_empty() {
        // Known numbers of them, of which vectors are made without a detour; what follows is compiled once for all three.
        let (halves, count) = if let Some(blocks) = rest.first_chunk::<AT_ONCE>() {
            (halves_of::<B, H, AT_ONCE>(blocks), AT_ONCE)
        } else if let Some(blocks) = rest.first_chunk::<2>() {
            (halves_of::<B, H, 2>(blocks), 2)
        } else {
            (halves_of::<B, H, 1>(&[rest[0]]), 1)
        };
        let blocks;
        (blocks, rest) = rest.split_at(count);
        // A block's bytes lie side by side and those of several blocks do not: the empty barriers keep the compiler from
        // vectorizing across blocks, which would gather single bytes (three times slower).
        let halves = black_box(halves);
        // Some formats' blocks begin with none.
        for (block, halves) in blocks.iter().zip(halves.chunks_exact(H.max(1))) {
            let mut own = [0.0; H];
            for (own, half) in own.iter_mut().zip(halves) {
                *own = *half;
            }
            let (integers, scales) = (F::integers(block), F::scales(block, own));
            for (index, integers) in integers.chunks_exact(group).enumerate() {
                sink(integers, scales.scale[index], scales.minimum[index]);
                black_box(());
            }
        }
    }
}

/// The values of the halves that blocks begin with, at most as many as are converted at once. It has loops where arrays have a
/// `map`: that, and functions as arguments, are not always inlined.
#[inline(always)]
fn halves_of<const B: usize, const H: usize, const BLOCKS: usize>(
    blocks: &[[u8; B]; BLOCKS],
) -> [f32; VECTOR] {
    let mut heads = [0; BLOCKS];
    for (head, block) in heads.iter_mut().zip(blocks) {
        *head = u32::from_le_bytes([block[0], block[1], block[2], block[3]]);
    }
    let mut halves = [0; VECTOR];
    #[allow(clippy::cast_possible_truncation)] // the halves of a head
    for (at, head) in heads.into_iter().enumerate() {
        if H > 0 {
            halves[H * at] = head as u16;
        }
        if H > 1 {
            halves[H * at + 1] = (head >> 16) as u16;
        }
    }
    vector(halves)
}

/// The low nibbles of all `N` bytes, then the high ones: `M = 2 N`.
#[inline(always)]
pub(super) fn nibbles<const N: usize, const M: usize>(bytes: &[u8; N]) -> [u8; M] {
    const { assert!(M == 2 * N) };
    let mut quants = [0; M];
    for (i, byte) in bytes.iter().enumerate() {
        quants[i] = byte & 0x0f;
        quants[i + N] = byte >> 4;
    }
    quants
}

/// Unsigned integers below 128 less `zero`.
#[inline(always)]
pub(super) fn less<const N: usize>(quants: [u8; N], zero: i8) -> [i8; N] {
    let mut integers = [0; N];
    for (integer, quant) in integers.iter_mut().zip(quants) {
        *integer = quant.cast_signed() - zero;
    }
    integers
}

/// The first `A` and the last `B` bytes of `A + B = N`.
#[inline(always)]
pub(super) fn split<const A: usize, const B: usize, const N: usize>(
    bytes: &[u8; N],
) -> (&[u8; A], &[u8; B]) {
    const { assert!(A + B == N) };
    let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) else {
        unreachable!("A and B are at most N")
    };
    (first, last)
}
