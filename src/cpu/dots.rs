//! Dot products between all rows of two matrices, in tiles, and between stored rows and one row.
//!
//! Each product has sixteen partial sums: element `i` belongs to sum `i % 16`. They are added in pairs at the end, and
//! products are fused with their additions. The bits therefore depend neither on the tile nor on the width of the
//! machine's vectors. A machine without fused multiply-add computes the same, slowly.

use pulp::{Simd, WithSimd};

use super::weight::Matrix;

/// Partial sums of a product.
const SUMS: usize = 16;

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
        // The number of products at a time is the number of vector registers: 32 with AVX-512, 16 with AVX2, 32 with
        // NEON. One row has as many as hide the latency of an addition.
        match S::F32_LANES {
            16 => self.tiled::<S, 1, 4, 4, 8>(simd),
            8 => self.tiled::<S, 2, 2, 3, 4>(simd),
            4 => self.tiled::<S, 4, 2, 3, 4>(simd),
            _ => self.tiled::<S, SUMS, 1, 1, 1>(simd),
        }
    }
}

impl Dots<'_> {
    /// Sums tiles of `A` rows of the left and `B` of the right, each sum in `V` vectors. The remaining rows of the left
    /// have tiles of one row and `C`.
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
        for (left, out) in lefts
            .chunks_exact(A * columns)
            .zip(outs.chunks_exact_mut(A * rows))
        {
            band::<S, V, A, B>(simd, left, right, columns, out);
        }
        for (left, out) in left_rest
            .chunks_exact(columns)
            .zip(out_rest.chunks_exact_mut(rows))
        {
            band::<S, V, 1, C>(simd, left, right, columns, out);
        }
    }
}

/// The products of `A` rows of the left with all of the right.
#[inline(always)]
fn band<S: Simd, const V: usize, const A: usize, const B: usize>(
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
        tile::<S, V, A, B>(simd, left, right, columns, |a, b, sum| {
            out[a * rows + row + b] = sum;
        });
    }
    for row in whole..rows {
        let right = &right[row * columns..][..columns];
        tile::<S, V, A, 1>(simd, left, right, columns, |a, _, sum| {
            out[a * rows + row] = sum;
        });
    }
}

/// Computes `out[a] = weight[first + a] . input` for a weight without groups. Its numbers are multiplied as they are
/// widened, and never stored.
pub(super) struct StoredDots<'a> {
    pub(super) weight: &'a Matrix,
    pub(super) first: usize,
    pub(super) input: &'a [f32],
    pub(super) out: &'a mut [f32],
}

impl WithSimd for StoredDots<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for (row, out) in (self.first..).zip(self.out) {
            *out = match S::F32_LANES {
                16 => stored_dot::<S, 1>(simd, self.weight, row, self.input),
                8 => stored_dot::<S, 2>(simd, self.weight, row, self.input),
                4 => stored_dot::<S, 4>(simd, self.weight, row, self.input),
                _ => stored_dot::<S, SUMS>(simd, self.weight, row, self.input),
            };
        }
    }
}

#[inline(always)]
fn stored_dot<S: Simd, const V: usize>(simd: S, weight: &Matrix, row: usize, input: &[f32]) -> f32 {
    let (whole, input_tail) = input.as_chunks::<SUMS>();
    let mut inputs = vectors::<S, V>(input, whole.len());
    let mut sums = [simd.splat_f32s(0.0); V];
    let mut tail = [0.0; SUMS];
    weight.numbers(
        row,
        #[inline(always)]
        |values| {
            let (whole, rest) = values.as_chunks::<SUMS>();
            let (here, after) = inputs.split_at(whole.len());
            inputs = after;
            for (values, input) in vectors::<S, V>(values, whole.len()).iter().zip(here) {
                for v in 0..V {
                    sums[v] = simd.mul_add_f32s(values[v], input[v], sums[v]);
                }
            }
            tail[..rest.len()].copy_from_slice(rest);
        },
    );
    let mut parts = [0.0; SUMS];
    S::as_mut_simd_f32s(&mut parts).0.copy_from_slice(&sums);
    for (part, (value, input)) in parts.iter_mut().zip(tail.iter().zip(input_tail)) {
        *part = value.mul_add(*input, *part);
    }
    sixteen_in_pairs(&parts)
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
    let lefts: [_; A] = std::array::from_fn(|a| vectors::<S, V>(&left[a * columns..], whole));
    let rights: [_; B] = std::array::from_fn(|b| vectors::<S, V>(&right[b * columns..], whole));
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
    // The sums are copied to memory here, because the compiler would otherwise keep them there during the loop.
    let mut parts = [[[0.0; SUMS]; B]; A];
    for (parts, sums) in parts.iter_mut().zip(&sums) {
        for (parts, sums) in parts.iter_mut().zip(sums) {
            S::as_mut_simd_f32s(parts).0.copy_from_slice(sums);
        }
    }
    let rest = whole * SUMS..columns;
    if !rest.is_empty() {
        for (a, parts) in parts.iter_mut().enumerate() {
            for (b, parts) in parts.iter_mut().enumerate() {
                let left = &left[a * columns..][rest.clone()];
                let right = &right[b * columns..][rest.clone()];
                for ((part, left), right) in parts.iter_mut().zip(left).zip(right) {
                    *part = left.mul_add(*right, *part);
                }
            }
        }
    }
    for (a, parts) in parts.iter().enumerate() {
        for (b, parts) in parts.iter().enumerate() {
            put(a, b, sixteen_in_pairs(parts));
        }
    }
}

/// The first `whole` groups of all sums of a row, as vectors of the machine.
#[inline(always)]
fn vectors<S: Simd, const V: usize>(row: &[f32], whole: usize) -> &[[S::f32s; V]] {
    &S::as_simd_f32s(row).0.as_chunks().0[..whole]
}

/// Adds the elements in pairs, each to the one half a length further, until one is left.
#[inline(always)]
pub(super) fn sixteen_in_pairs(parts: &[f32; SUMS]) -> f32 {
    eight_in_pairs(&halve(parts))
}

#[inline(always)]
pub(super) fn eight_in_pairs(parts: &[f32; SUMS / 2]) -> f32 {
    let [left, right] = halve::<4, 2>(&halve(parts));
    left + right
}

/// Returns a new array, because values that are never in memory stay in vector registers.
#[inline(always)]
fn halve<const ALL: usize, const HALF: usize>(parts: &[f32; ALL]) -> [f32; HALF] {
    std::array::from_fn(
        #[inline(always)]
        |i| parts[i] + parts[i + HALF],
    )
}
