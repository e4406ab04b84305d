//! Blocks of values that share scales: how they become values, in the operations and the order that the Python package
//! `gguf` uses, so that every bit agrees; the layouts are those of ggml's `ggml-common.h`.
//!
//! The loops run over arrays of known length, so that they vectorize for whatever instructions the
//! caller has enabled: each function is inlined into it.
#![allow(clippy::inline_always)] // an executor's vector instructions reach only what is inlined into it

use std::hint::black_box;

use super::plain::half;
use super::rows::{Place, Rows};
use super::tile::Layout;
use super::{About, random};

/// Blocks whose halves are converted at once: one conversion alone takes as long as ten values.
const GROUP: usize = 8;

/// A format's blocks of `B` bytes, of `N` values each, which begin with `H` halves.
pub(super) trait Block<const B: usize, const N: usize, const H: usize> {
    /// In device memory.
    const LAYOUT: Layout;
    const RANDOM: random::Scales;

    /// Of a block, and the values of its halves.
    fn values(block: &[u8; B], halves: [f32; H]) -> [f32; N];

    /// Takes a block's integers and scales apart.
    fn take_apart(block: &[u8; B], to: &mut Place<'_, N>);
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
            F::take_apart(block, &mut rows.place(row, index));
        }
    }
}

/// Hands on the values of each block.
#[inline(always)]
pub(super) fn decode<F: Block<B, N, H>, const B: usize, const N: usize, const H: usize>(
    _: &F,
    bytes: &[u8],
    mut sink: impl FnMut(&[f32]),
) {
    let (groups, rest) = bytes.as_chunks::<B>().0.as_chunks::<GROUP>();
    for group in groups {
        some_blocks::<F, B, N, H>(group, &mut sink);
    }
    some_blocks::<F, B, N, H>(rest, &mut sink);
}

/// At most as many as are converted at once. Loops, where arrays have a `map`: that, and functions as arguments, are not
/// always inlined.
#[inline(always)]
fn some_blocks<F: Block<B, N, H>, const B: usize, const N: usize, const H: usize>(
    blocks: &[[u8; B]],
    sink: &mut impl FnMut(&[f32]),
) {
    let mut heads = [0; GROUP];
    for (head, block) in heads.iter_mut().zip(blocks) {
        *head = u32::from_le_bytes([block[0], block[1], block[2], block[3]]);
    }
    let mut halves = [[0.0; GROUP]; H];
    for (i, halves) in halves.iter_mut().enumerate() {
        for (value, head) in halves.iter_mut().zip(heads) {
            *value = half(head >> (16 * i) & 0xffff);
        }
    }
    // A block's bytes lie side by side and those of several blocks do not: the empty barriers keep the compiler from
    // vectorizing across blocks, which would gather single bytes (three times slower).
    let halves = black_box(halves);
    for (at, block) in blocks.iter().enumerate() {
        let mut own = [0.0; H];
        for (own, halves) in own.iter_mut().zip(&halves) {
            *own = halves[at];
        }
        sink(&F::values(block, own));
        black_box(());
    }
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

/// `scale * quants + min`, rounded after each operation.
#[inline(always)]
pub(super) fn affine<const N: usize>(scale: f32, quants: [u8; N], min: f32) -> [f32; N] {
    let mut values = [0.0; N];
    for (value, quant) in values.iter_mut().zip(quants) {
        *value = scale * f32::from(quant) + min;
    }
    values
}

/// `scale * (quants - zero)`
#[inline(always)]
pub(super) fn centred<const N: usize>(scale: f32, quants: [u8; N], zero: i8) -> [f32; N] {
    let mut values = [0.0; N];
    for (value, quant) in values.iter_mut().zip(quants) {
        *value = scale * f32::from(quant.cast_signed() - zero);
    }
    values
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
