//! Formats with blocks of 32 integers, in vectors.
#![allow(clippy::inline_always)] // an executor's vector instructions reach only what is inlined into it

use std::marker::PhantomData;

use super::block::{Block, stored_halves};
use super::span::{Blocks, Integers, SHORT, Short as Factors};
use super::vectors::Vectors;

pub(super) trait Short<const B: usize, const H: usize>: Block<B, 32, H> {
    /// What is added to the integers.
    const ZERO: u8 = 0;
    /// Whether an integer of `vector` can be negative.
    const SIGNED: bool = false;

    /// The integers of two blocks, plus `ZERO`.
    fn vector<V: Vectors>(vectors: V, blocks: [&[u8; B]; 2]) -> V::Bytes;
}

struct Packed<'a, F, const B: usize, const H: usize> {
    blocks: &'a [[u8; B]; SHORT],
    format: PhantomData<F>,
}

impl<V: Vectors, F: Short<B, H>, const B: usize, const H: usize> Integers<V, 2>
    for Packed<'_, F, B, H>
{
    #[inline(always)]
    fn unpack(self, vectors: V) -> [V::Bytes; 2] {
        let [a, b, c, d] = self.blocks;
        [F::vector(vectors, [a, b]), F::vector(vectors, [c, d])]
    }
}

/// Passes each four blocks to `to`.
#[inline(always)]
pub(super) fn spans<V: Vectors, F: Short<B, H>, const B: usize, const H: usize>(
    _: &F,
    vectors: V,
    bytes: &[u8],
    to: &mut impl Blocks<V>,
) {
    let mut rest = bytes.as_chunks::<B>().0;
    let mut last = [[0; B]; SHORT];
    while !rest.is_empty() {
        let blocks = if let Some((blocks, others)) = rest.split_first_chunk() {
            rest = others;
            blocks
        } else {
            last[..rest.len()].copy_from_slice(rest);
            rest = &[];
            &last
        };
        let mut words = [0; 2];
        for (at, block) in blocks.iter().enumerate() {
            let halves = stored_halves::<F, B, 32, H>(block);
            for (word, half) in words.iter_mut().zip(halves) {
                *word |= u64::from(half) << (16 * at);
            }
        }
        let [a, b, c, d, minima @ ..] = vectors.halves(words);
        let scales = [a, b, c, d];
        let addends = if H > 1 {
            Some(minima)
        } else if F::ZERO > 0 {
            let mut addends = scales;
            for addend in &mut addends {
                *addend *= -f32::from(F::ZERO);
            }
            Some(addends)
        } else {
            None
        };
        to.short(
            &Factors {
                scales,
                addends,
                signed: F::SIGNED,
            },
            Packed::<F, B, H> {
                blocks,
                format: PhantomData,
            },
        );
    }
}
