//! The running softmax of one query, and the sums that it weighs (Milakov and Gimelshein 2018).

use pulp::{Simd, WithSimd};

use super::exp::exp;
use super::pairs::fold_32;

/// Positions whose scores come at a time.
pub(super) const TILE: usize = 32;
/// Partial sums of the weights, and of the columns that are summed at once.
const LANES: usize = 16;

/// How far it has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Softmax {
    greatest: f32,
    /// Of the weights.
    pub(super) sum: f32,
}

impl Default for Softmax {
    fn default() -> Self {
        Self {
            greatest: f32::NEG_INFINITY,
            sum: 0.0,
        }
    }
}

impl Softmax {
    /// Scores times `scale` become weights, zero for those not seen; what was summed before is weighed anew if one of
    /// them is the greatest so far.
    #[inline(always)]
    pub(super) fn add(
        &mut self,
        scores: &mut [f32; TILE],
        seen: usize,
        scale: f32,
        sums: &mut [f32],
    ) {
        for score in scores.iter_mut() {
            *score *= scale;
        }
        scores[seen..].fill(f32::NEG_INFINITY);
        let greatest = greater(self.greatest, fold_32(scores, greater));
        if greatest > self.greatest {
            // Of nothing there is nothing to weigh.
            let less = if self.sum > 0.0 {
                exp(self.greatest - greatest)
            } else {
                0.0
            };
            self.sum *= less;
            sums.iter_mut().for_each(|sum| *sum *= less);
            self.greatest = greatest;
        }
        for score in scores.iter_mut() {
            *score = exp(*score - greatest);
        }
        scores[seen..].fill(0.0);
        self.sum += fold_32(scores, |a, b| a + b);
    }
}

#[inline(always)]
fn greater(a: f32, b: f32) -> f32 {
    if b > a { b } else { a }
}

/// Adds what was summed of some positions to what was summed of those before, query by query.
pub(super) struct Merge<'a> {
    /// (queries), and their sums: (queries, head_dim)
    pub(super) whole: (&'a mut [Softmax], &'a mut [f32]),
    pub(super) part: (&'a [Softmax], &'a [f32]),
    pub(super) head_dim: usize,
}

impl pulp::NullaryFnOnce for Merge<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let (whole, sums) = self.whole;
        let whole = whole.iter_mut().zip(sums.chunks_exact_mut(self.head_dim));
        let (part, sums) = self.part;
        let part = part.iter().zip(sums.chunks_exact(self.head_dim));
        for ((whole, sums), (part, added)) in whole.zip(part) {
            let greatest = greater(whole.greatest, part.greatest);
            let (less, more) = (
                exp(whole.greatest - greatest),
                exp(part.greatest - greatest),
            );
            whole.greatest = greatest;
            whole.sum = whole.sum * less + part.sum * more;
            for (sum, added) in sums.iter_mut().zip(added) {
                *sum = *sum * less + added * more;
            }
        }
    }
}

/// `sums += weights values`: weights are (queries, TILE), values (TILE, head_dim), sums (queries, head_dim).
pub(super) struct Weighted<'a> {
    pub(super) weights: &'a [[f32; TILE]],
    pub(super) values: &'a [f32],
    pub(super) head_dim: usize,
    pub(super) sums: &'a mut [f32],
}

impl WithSimd for Weighted<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // As many queries, and columns of the rest, at once as there are registers for their sums.
        match S::F32_LANES {
            16 => {
                let rest = self.grouped::<S, 1, 8, 1>(simd);
                let rest = rest.grouped::<S, 1, 2, 4>(simd);
                rest.grouped::<S, 1, 1, 4>(simd);
            }
            8 => {
                let rest = self.grouped::<S, 2, 4, 1>(simd);
                rest.grouped::<S, 2, 1, 4>(simd);
            }
            4 => {
                let rest = self.grouped::<S, 4, 4, 1>(simd);
                rest.grouped::<S, 4, 1, 4>(simd);
            }
            _ => {
                self.grouped::<S, LANES, 1, 1>(simd);
            }
        }
    }
}

impl Weighted<'_> {
    /// For `Q` queries at once, `C` times so many columns as there are lanes, as long as there are so many; returns the
    /// other queries.
    #[inline(always)]
    fn grouped<S: Simd, const V: usize, const Q: usize, const C: usize>(self, simd: S) -> Self {
        let Self {
            weights,
            values,
            head_dim,
            sums,
        } = self;
        let (groups, rest) = weights.as_chunks::<Q>();
        let (sums, rest_sums) = sums.split_at_mut(groups.len() * Q * head_dim);
        for (weights, sums) in groups.iter().zip(sums.chunks_exact_mut(Q * head_dim)) {
            let wide = head_dim / (C * LANES) * (C * LANES);
            for column in (0..wide).step_by(C * LANES) {
                add::<S, V, Q, C>(simd, weights, values, head_dim, column, sums);
            }
            let whole = head_dim / LANES * LANES;
            for column in (wide..whole).step_by(LANES) {
                add::<S, V, Q, 1>(simd, weights, values, head_dim, column, sums);
            }
            for (weights, sums) in weights.iter().zip(sums.chunks_exact_mut(head_dim)) {
                for (values, weight) in values.chunks_exact(head_dim).zip(weights) {
                    for (sum, value) in sums[whole..].iter_mut().zip(&values[whole..]) {
                        *sum = weight.mul_add(*value, *sum);
                    }
                }
            }
        }
        Self {
            weights: rest,
            values,
            head_dim,
            sums: rest_sums,
        }
    }
}

/// To the sums of `C` times `LANES` columns, from `column` on.
#[inline(always)]
fn add<S: Simd, const V: usize, const Q: usize, const C: usize>(
    simd: S,
    weights: &[[f32; TILE]; Q],
    values: &[f32],
    head_dim: usize,
    column: usize,
    sums: &mut [f32],
) {
    let mut parts = [[[simd.splat_f32s(0.0); V]; C]; Q];
    for (parts, sums) in parts.iter_mut().zip(sums.chunks_exact(head_dim)) {
        let sums = &sums[column..][..C * LANES];
        parts.copy_from_slice(S::as_simd_f32s(sums).0.as_chunks().0);
    }
    for (position, values) in values.chunks_exact(head_dim).take(TILE).enumerate() {
        let (values, _) = S::as_simd_f32s(&values[column..][..C * LANES]);
        let values = &values.as_chunks::<V>().0[..C];
        for query in 0..Q {
            let weight = simd.splat_f32s(weights[query][position]);
            for c in 0..C {
                for v in 0..V {
                    parts[query][c][v] =
                        simd.mul_add_f32s(weight, values[c][v], parts[query][c][v]);
                }
            }
        }
    }
    for (parts, sums) in parts.iter().zip(sums.chunks_exact_mut(head_dim)) {
        let sums = &mut sums[column..][..C * LANES];
        let sums = S::as_mut_simd_f32s(sums).0.as_chunks_mut().0;
        sums.copy_from_slice(parts);
    }
}
