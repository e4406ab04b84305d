//! Formats without blocks: each value is a number.
#![allow(clippy::inline_always)] // an executor's vector instructions reach only what is inlined into it

use half::{bf16, f16};

use super::about::About;
use super::halves::{VECTOR, half, vector};
use super::layout::Layout;
use super::recipe::Block;
use super::span::Blocks;
use super::vectors::Vectors;

/// Values that are passed on at a time.
const PIECE: usize = 32;

/// A number of `B` bytes.
pub(super) trait Number<const B: usize> {
    fn value(bytes: [u8; B]) -> f32;

    #[inline(always)]
    fn values(numbers: &[[u8; B]; PIECE]) -> [f32; PIECE] {
        let mut values = [0.0; PIECE];
        for (value, number) in values.iter_mut().zip(numbers) {
            *value = Self::value(*number);
        }
        values
    }

    fn nearest(value: f32) -> [u8; B];
}

pub(super) const fn about<F: Number<B>, const B: usize>(_: &F) -> About {
    About {
        values: 1,
        bytes: B,
        layout: Layout::of_values(B),
        random: Block::Number(|value, out| out.copy_from_slice(&F::nearest(value))),
        take_apart: |_, _, _| {},
    }
}

/// Decodes numbers, which are the only content.
#[inline(always)]
pub(super) fn decode<F: Number<B>, const B: usize>(of: &F, bytes: &[u8], sink: impl FnMut(&[f32])) {
    numbers(of, bytes, sink);
}

/// Calls `take` with the values of numbers, several at a time.
#[inline(always)]
pub(super) fn numbers<F: Number<B>, const B: usize>(
    _: &F,
    bytes: &[u8],
    mut sink: impl FnMut(&[f32]),
) {
    let (pieces, rest) = bytes.as_chunks::<B>().0.as_chunks::<PIECE>();
    for piece in pieces {
        sink(&F::values(piece));
    }
    let mut values = [0.0; PIECE];
    for (value, number) in values.iter_mut().zip(rest) {
        *value = F::value(*number);
    }
    sink(&values[..rest.len()]);
}

/// Does nothing, because numbers share no scale.
#[inline(always)]
pub(super) fn groups<F>(_: &F, _: &[u8], _: impl FnMut(&[i8], f32, f32)) {}

/// Does nothing, as `groups` does.
#[inline(always)]
pub(super) fn spans<F, V: Vectors>(_: &F, _: V, _: &[u8], _: &mut impl Blocks<V>) {}

pub(super) struct F32;
impl Number<4> for F32 {
    #[inline(always)]
    fn value(bytes: [u8; 4]) -> f32 {
        f32::from_le_bytes(bytes)
    }

    fn nearest(value: f32) -> [u8; 4] {
        value.to_le_bytes()
    }
}

pub(super) struct F16;
impl Number<2> for F16 {
    #[inline(always)]
    fn value(bytes: [u8; 2]) -> f32 {
        half(u32::from(u16::from_le_bytes(bytes)))
    }

    #[inline(always)]
    fn values(numbers: &[[u8; 2]; PIECE]) -> [f32; PIECE] {
        let mut values = [0.0; PIECE];
        let vectors = numbers.as_chunks::<VECTOR>().0;
        for (values, numbers) in values.as_chunks_mut::<VECTOR>().0.iter_mut().zip(vectors) {
            let mut halves = [0; VECTOR];
            for (half, number) in halves.iter_mut().zip(numbers) {
                *half = u16::from_le_bytes(*number);
            }
            *values = vector(halves);
        }
        values
    }

    fn nearest(value: f32) -> [u8; 2] {
        f16::from_f32(value).to_le_bytes()
    }
}

pub(super) struct BF16;
impl Number<2> for BF16 {
    #[inline(always)]
    fn value(bytes: [u8; 2]) -> f32 {
        f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16)
    }

    fn nearest(value: f32) -> [u8; 2] {
        bf16::from_f32(value).to_le_bytes()
    }
}
