//! Blocks of values that share scales: their integers, their scales, and their values.
//!
//! Decoding uses the operations and the order of the Python package `gguf`, so that every bit agrees. The layouts are
//! those of ggml's `ggml-common.h`. The loops run over arrays of known length and are inlined, so that they vectorize
//! for the instructions that the caller has enabled.
#![allow(clippy::inline_always)] // an executor's vector instructions reach only what is inlined into it

use std::hint::black_box;

use super::about::About;
use super::halves::{VECTOR, vector};
use super::layout::Layout;
use super::recipe;
use super::rows::{Destination, TileRows};
use super::vectors::Vectors;

/// Blocks whose halves are converted at a time, because a single conversion takes as long as ten values.
const AT_ONCE: usize = VECTOR / 2;
/// The most groups of a block: 256 values in groups of 16.
const MOST_GROUPS: usize = 16;

/// The blocks of a format: `B` bytes, `N` values, and `H` halves.
pub(super) trait Block<const B: usize, const N: usize, const H: usize> {
    /// The layout in device memory.
    const LAYOUT: Layout;
    const RANDOM: recipe::Scales;
    /// The offset of the halves.
    const HALVES: usize = 0;

    /// A block's integers, in the order of its values.
    fn integers(block: &[u8; B]) -> [i8; N];

    /// What the integers are multiplied with, from the values of the halves.
    fn factors(block: &[u8; B], halves: [f32; H]) -> Factors;

    /// Splits a block into integers and scales.
    fn take_apart(block: &[u8; B], to: &mut Destination<'_, N>);
}

/// A group's factor is the product of an integer and the factor of its block. So is its minimum, which is subtracted.
pub(super) struct Factors {
    pub(super) scale: f32,
    pub(super) scales: [i8; MOST_GROUPS],
    pub(super) minimum: f32,
    pub(super) minima: [u8; MOST_GROUPS],
}

impl Factors {
    /// The factors of a block with a single group, whose minimum is added.
    #[inline(always)]
    pub(super) fn of_one(scale: f32, minimum: f32) -> Self {
        Self {
            scale,
            scales: [1; MOST_GROUPS],
            minimum: -minimum,
            minima: [1; MOST_GROUPS],
        }
    }

    /// The factor of a group.
    #[inline(always)]
    fn scale(&self, group: usize) -> f32 {
        self.scale * f32::from(self.scales[group])
    }

    /// The addend of a group.
    #[inline(always)]
    fn addend(&self, group: usize) -> f32 {
        -(self.minimum * f32::from(self.minima[group]))
    }
}

pub(super) const fn about<F: Block<B, N, H>, const B: usize, const N: usize, const H: usize>(
    _: &F,
) -> About {
    About {
        values: N,
        bytes: B,
        layout: F::LAYOUT,
        random: recipe::Block::Scales(F::RANDOM),
        take_apart: take_apart::<F, B, N, H>,
    }
}

/// Splits consecutive rows of `columns`.
fn take_apart<F: Block<B, N, H>, const B: usize, const N: usize, const H: usize>(
    bytes: &[u8],
    columns: usize,
    rows: &mut TileRows,
) {
    let blocks = bytes.as_chunks::<B>().0;
    for (row, blocks) in blocks.chunks_exact(columns / N).enumerate() {
        for (index, block) in blocks.iter().enumerate() {
            F::take_apart(block, &mut rows.destination(row, index));
        }
    }
}

/// Decodes values of formats with blocks, group by group.
#[inline(always)]
pub(super) fn numbers<F>(_: &F, _: &[u8], _: impl FnMut(&[f32])) {}

/// Calls `sink` with the values of each group.
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
                // Each operation rounds its result.
                *value = scale * f32::from(*integer);
                if F::LAYOUT.has_minimum {
                    *value += minimum;
                }
            }
            sink(values);
        },
    );
}

/// The columns of a group.
pub(super) const fn group_columns<
    F: Block<B, N, H>,
    const B: usize,
    const N: usize,
    const H: usize,
>() -> usize {
    match F::LAYOUT.block_columns {
        Some(columns) => columns,
        None => N,
    }
}

/// Calls `sink` with the 16 or 32 integers of each group, their scale and their minimum. The minimum is 0 if the format
/// has none.
#[inline(always)]
pub(super) fn groups<F: Block<B, N, H>, const B: usize, const N: usize, const H: usize>(
    _: &F,
    bytes: &[u8],
    mut sink: impl FnMut(&[i8], f32, f32),
) {
    let columns = const { group_columns::<F, B, N, H>() };
    blocks::<F, B, N, H>(
        bytes,
        #[inline(always)]
        |block, halves| {
            let (integers, factors) = (F::integers(block), F::factors(block, halves));
            for (group, integers) in integers.chunks_exact(columns).enumerate() {
                let addend = if F::LAYOUT.has_minimum {
                    factors.addend(group)
                } else {
                    0.0
                };
                sink(integers, factors.scale(group), addend);
                black_box(());
            }
        },
    );
}

/// Calls `sink` with each block and the values of its halves.
#[inline(always)]
fn blocks<F: Block<B, N, H>, const B: usize, const N: usize, const H: usize>(
    bytes: &[u8],
    mut sink: impl FnMut(&[u8; B], [f32; H]),
) {
    let mut rest = bytes.as_chunks::<B>().0;
    while !rest.is_empty() {
        // The number of blocks is known in the first case, which vectorizes. The loop is compiled once for all three
        // cases.
        let (halves, count) = if let Some(blocks) = rest.first_chunk::<AT_ONCE>() {
            (halves_of::<F, B, N, H, AT_ONCE>(blocks), AT_ONCE)
        } else if let Some(blocks) = rest.first_chunk::<2>() {
            (halves_of::<F, B, N, H, 2>(blocks), 2)
        } else {
            (halves_of::<F, B, N, H, 1>(&[rest[0]]), 1)
        };
        let blocks;
        (blocks, rest) = rest.split_at(count);
        // The bytes of a block are adjacent, and those of several blocks are not. The barriers stop the compiler from
        // vectorizing across blocks: gathering single bytes is three times slower.
        let halves = black_box(halves);
        for (block, halves) in blocks.iter().zip(halves.as_chunks().0) {
            sink(block, *halves);
        }
    }
}

/// The values of the halves of blocks, at most `AT_ONCE` blocks. Loops are used because `map` and
/// function arguments are not always inlined.
#[inline(always)]
fn halves_of<
    F: Block<B, N, H>,
    const B: usize,
    const N: usize,
    const H: usize,
    const BLOCKS: usize,
>(
    blocks: &[[u8; B]; BLOCKS],
) -> [f32; VECTOR] {
    let mut halves = [0; VECTOR];
    for (block, halves) in blocks.iter().zip(halves.as_chunks_mut().0) {
        *halves = stored_halves::<F, B, N, H>(block);
    }
    vector(halves)
}

/// The bits of a block's halves.
#[inline(always)]
pub(super) fn stored_halves<F: Block<B, N, H>, const B: usize, const N: usize, const H: usize>(
    block: &[u8; B],
) -> [u16; H] {
    let mut halves = [0; H];
    for (at, half) in halves.iter_mut().enumerate() {
        let at = F::HALVES + 2 * at;
        *half = u16::from_le_bytes([block[at], block[at + 1]]);
    }
    halves
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

/// The nibbles of two blocks: the low ones of each, then its high ones.
#[inline(always)]
pub(super) fn two_blocks<V: Vectors>(vectors: V, first: &[u8; 16], second: &[u8; 16]) -> V::Bytes {
    vectors.right(vectors.double(first, second), [0, 4, 0, 4], 0x0f)
}

/// Subtracts `zero` from unsigned integers below 128.
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
