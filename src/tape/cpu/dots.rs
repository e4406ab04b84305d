//! Dot products: of every row of one matrix with every row of another, a tile of them at a time.
//!
//! Each product has sixteen partial sums, element `i` in sum `i % 16`, which are added in pairs at the end; products are
//! fused with their additions. So the bits of one depend neither on the tile that it is in, nor on the width of the
//! machine's vectors. A machine without fused multiply-add computes the same, slowly.

use pulp::{Simd, WithSimd};

#[cfg(target_arch = "x86_64")]
use super::avx512;
use super::pairs::fold_16;

/// Partial sums of a product.
pub(super) const SUMS: usize = 16;

/// `out[a][b] = left[a] . right[b]`: left is (_, columns), right (rows, columns), out (_, rows).
pub(super) struct Dots<'a> {
    pub(super) left: &'a [f32],
    pub(super) right: &'a [f32],
    pub(super) columns: usize,
    pub(super) out: &'a mut [f32],
}

impl WithSimd for Dots<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // As many products at once as there are registers for: 32 with AVX-512, 16 with AVX2, 32 with NEON.
        match S::F32_LANES {
            16 => self.tiled::<S, 1, 4, 4, 16>(simd),
            8 => self.tiled::<S, 2, 2, 3, 4>(simd),
            4 => self.tiled::<S, 4, 2, 3, 4>(simd),
            _ => self.tiled::<S, SUMS, 1, 1, 1>(simd),
        }
    }
}

impl Dots<'_> {
    /// In tiles of `A` rows of the left and `B` of the right, or one of the left and `C` of the right; each sum in `V`
    /// vectors.
    #[inline(always)]
    fn tiled<S: Simd, const V: usize, const A: usize, const B: usize, const C: usize>(
        self,
        simd: S,
    ) {
        let Self {
            left,
            right,
            columns,
            out,
        } = self;
        let rows = right.len() / columns;
        let (lefts, left_rest) = left.split_at(left.len() / (A * columns) * A * columns);
        let (outs, out_rest) = out.split_at_mut(lefts.len() / columns * rows);
        down::<S, V, A, B>(simd, lefts, right, columns, outs);
        down::<S, V, 1, C>(simd, left_rest, right, columns, out_rest);
    }
}

/// A multiple of `A` rows of the left: what is at hand of the right is multiplied with all of them before more is loaded.
#[inline(always)]
fn down<S: Simd, const V: usize, const A: usize, const B: usize>(
    simd: S,
    left: &[f32],
    right: &[f32],
    columns: usize,
    out: &mut [f32],
) {
    let rows = right.len() / columns;
    let whole = rows / B * B;
    for row in (0..whole).step_by(B) {
        let right = &right[row * columns..][..B * columns];
        let lefts = left.chunks_exact(A * columns);
        for (left, out) in lefts.zip(out.chunks_exact_mut(A * rows)) {
            tile::<S, V, A, B>(simd, left, right, columns, |a, b, sum| {
                out[a * rows + row + b] = sum;
            });
        }
    }
    for row in whole..rows {
        let right = &right[row * columns..][..columns];
        let lefts = left.chunks_exact(A * columns);
        for (left, out) in lefts.zip(out.chunks_exact_mut(A * rows)) {
            tile::<S, V, A, 1>(simd, left, right, columns, |a, _, sum| {
                out[a * rows + row] = sum;
            });
        }
    }
}

/// The dot product of two rows of the same length.
#[inline(always)]
pub(super) fn dot<S: Simd>(simd: S, a: &[f32], b: &[f32]) -> f32 {
    let mut product = [0.0];
    Dots {
        left: a,
        right: b,
        columns: a.len(),
        out: &mut product,
    }
    .with_simd(simd);
    product[0]
}

#[inline(always)]
fn tile<S: Simd, const V: usize, const A: usize, const B: usize>(
    simd: S,
    left: &[f32],
    right: &[f32],
    columns: usize,
    mut put: impl FnMut(usize, usize, f32),
) {
    let whole = columns / SUMS;
    let mut lefts = [vectors::<S, V>(left, whole); A];
    for (a, row) in lefts.iter_mut().enumerate() {
        *row = vectors::<S, V>(&left[a * columns..], whole);
    }
    let mut rights = [vectors::<S, V>(right, whole); B];
    for (b, row) in rights.iter_mut().enumerate() {
        *row = vectors::<S, V>(&right[b * columns..], whole);
    }
    let mut sums = [[[simd.splat_f32s(0.0); V]; B]; A];
    for i in 0..whole {
        for a in 0..A {
            for b in 0..B {
                for v in 0..V {
                    let (left, right) = (lefts[a][i][v], rights[b][i][v]);
                    sums[a][b][v] = simd.mul_add_f32s(left, right, sums[a][b][v]);
                }
            }
        }
    }
    #[cfg(target_arch = "x86_64")]
    if columns == whole * SUMS
        && A * B == 16
        && let Some(simd) = avx512::of(simd)
    {
        let mut all = [[0.0; SUMS]; 16];
        for (all, sums) in all.iter_mut().zip(sums.iter().flatten()) {
            S::as_mut_simd_f32s(all).0.copy_from_slice(sums);
        }
        for (index, sum) in avx512::all_in_pairs(simd, &all).into_iter().enumerate() {
            put(index / B, index % B, sum);
        }
        return;
    }
    // What follows works on a copy in memory: otherwise the compiler keeps the sums there all the while.
    let mut parts = [[[0.0; SUMS]; B]; A];
    for (parts, sums) in parts.iter_mut().zip(&sums) {
        for (parts, sums) in parts.iter_mut().zip(sums) {
            S::as_mut_simd_f32s(parts).0.copy_from_slice(sums);
        }
    }
    for (a, parts) in parts.iter_mut().enumerate() {
        for (b, parts) in parts.iter_mut().enumerate() {
            let left = &left[a * columns..][..columns][whole * SUMS..];
            let right = &right[b * columns..][..columns][whole * SUMS..];
            for ((part, left), right) in parts.iter_mut().zip(left).zip(right) {
                *part = left.mul_add(*right, *part);
            }
            put(a, b, in_pairs(parts));
        }
    }
}

/// The first `whole` groups of all sums of a row, as vectors of the machine.
#[inline(always)]
pub(super) fn vectors<S: Simd, const V: usize>(row: &[f32], whole: usize) -> &[[S::f32s; V]] {
    &S::as_simd_f32s(row).0.as_chunks().0[..whole]
}

/// Their sum.
#[inline(always)]
pub(super) fn in_pairs(parts: &[f32; SUMS]) -> f32 {
    fold_16(parts, |a, b| a + b)
}
