//! Formats with blocks of 256 integers, in vectors.
#![allow(clippy::inline_always)] // an executor's vector instructions reach only what is inlined into it

use std::marker::PhantomData;

use super::block::{Block, group_columns, stored_halves};
use super::span::{Blocks, Integers, Long as Factors};
use super::vectors::Vectors;

pub(super) trait Long<const B: usize, const H: usize>: Block<B, 256, H> {
    /// Whether an integer times the factor of its group is at most 1024.
    const ARE_SMALL: bool = false;

    /// The block's integers, in their order.
    fn unpack<V: Vectors>(vectors: V, block: &[u8; B]) -> [V::Bytes; 4];
}

struct Packed<'a, F, const B: usize, const H: usize> {
    block: &'a [u8; B],
    format: PhantomData<F>,
}

impl<V: Vectors, F: Long<B, H>, const B: usize, const H: usize> Integers<V, 4>
    for Packed<'_, F, B, H>
{
    #[inline(always)]
    fn unpack(self, vectors: V) -> [V::Bytes; 4] {
        F::unpack(vectors, self.block)
    }
}

/// Passes each block to `to`.
#[inline(always)]
pub(super) fn spans<V: Vectors, F: Long<B, H>, const B: usize, const H: usize>(
    _: &F,
    vectors: V,
    bytes: &[u8],
    to: &mut impl Blocks<V>,
) {
    for block in bytes.as_chunks::<B>().0 {
        let mut word = 0;
        for (at, half) in stored_halves::<F, B, 256, H>(block).into_iter().enumerate() {
            word |= u64::from(half) << (16 * at);
        }
        let mut halves = [0.0; H];
        for (half, value) in halves.iter_mut().zip(vectors.halves([word, 0])) {
            *half = value;
        }
        let factors = F::factors(block, halves);
        to.long(
            &Factors {
                columns: const { group_columns::<F, B, 256, H>() },
                scale: factors.scale,
                scales: factors.scales,
                are_small: F::ARE_SMALL,
                minima: F::LAYOUT
                    .has_minimum
                    .then_some((factors.minimum, factors.minima)),
            },
            Packed::<F, B, H> {
                block,
                format: PhantomData,
            },
        );
    }
}
