//! The running softmax of one query, and its weighted sums (Milakov and Gimelshein 2018).

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::exp::exp;
use crate::tape::Attention;

/// Positions whose scores are computed at a time.
pub(super) const TILE: usize = 32;
/// Columns that are summed at a time without vectors.
const LANES: usize = 16;

/// The greatest score and the sum of weights so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Softmax {
    greatest: f32,
    /// The sum of the weights.
    sum: f32,
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
    /// Turns scores into weights, which are zero for positions that are not seen. If one is the greatest so far,
    /// earlier sums are scaled.
    #[inline(always)]
    pub(super) fn add(
        &mut self,
        scores: &mut [f32; TILE],
        seen: Range<usize>,
        attention: &Attention,
        sums: &mut [f32],
    ) {
        for score in scores.iter_mut() {
            *score *= attention.scale;
        }
        if let Some(cap) = attention.softcap {
            for score in scores.iter_mut() {
                *score = cap * (*score / cap).tanh();
            }
        }
        scores[..seen.start].fill(f32::NEG_INFINITY);
        scores[seen.end..].fill(f32::NEG_INFINITY);
        let greatest = greater(self.greatest, fold(scores, greater));
        if greatest > self.greatest {
            // An empty sum has no weight.
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
        // Without any position so far, the weight is not a number.
        scores[..seen.start].fill(0.0);
        scores[seen.end..].fill(0.0);
        self.sum += fold(scores, |a, b| a + b);
    }

    /// Computes `out = sums / (the sum of all weights)`, including the weight of a sink.
    #[inline(always)]
    pub(super) fn share(self, sink: Option<f32>, sums: &[f32], out: &mut [f32]) {
        let all = self.sum + sink.map_or(0.0, |sink| (sink - self.greatest).exp());
        for (out, sum) in out.iter_mut().zip(sums) {
            *out = sum / all;
        }
    }

    /// The greatest score and the sum.
    pub(super) fn parts(self) -> [f32; 2] {
        [self.greatest, self.sum]
    }

    pub(super) fn of([greatest, sum]: [f32; 2]) -> Self {
        Self { greatest, sum }
    }

    /// Adds the result of another split, whose two numbers follow its sums.
    #[inline(always)]
    pub(super) fn merge(&mut self, sums: &mut [f32], other: &[f32]) {
        let (others, parts) = other.split_at(sums.len());
        let greatest = greater(self.greatest, parts[0]);
        // An empty sum has no weight.
        let weight = |of: f32, sum: f32| if sum > 0.0 { exp(of - greatest) } else { 0.0 };
        let (here, there) = (weight(self.greatest, self.sum), weight(parts[0], parts[1]));
        self.sum = self.sum.mul_add(here, parts[1] * there);
        for (sum, other) in sums.iter_mut().zip(others) {
            *sum = sum.mul_add(here, other * there);
        }
        self.greatest = greatest;
    }
}

#[inline(always)]
fn greater(a: f32, b: f32) -> f32 {
    if b > a { b } else { a }
}

/// Adds all lanes in pairs, an order that vector instructions support.
#[inline(always)]
fn fold(values: &[f32; TILE], of: impl Fn(f32, f32) -> f32) -> f32 {
    let mut parts = *values;
    let mut width = TILE;
    while width > 1 {
        width /= 2;
        for i in 0..width {
            parts[i] = of(parts[i], parts[i + width]);
        }
    }
    parts[0]
}

/// `sums += weights values`: weights are (queries, count), values (count, columns), sums (queries, columns). Each sum has one
/// product after the other.
pub(super) struct Weighted<'a> {
    pub(super) weights: &'a [f32],
    pub(super) values: &'a [f32],
    pub(super) columns: usize,
    pub(super) sums: &'a mut [f32],
}

impl WithSimd for Weighted<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // The number of queries and of columns at a time is that of the registers for their sums.
        match S::F32_LANES {
            16 => self.grouped::<S, 2, 8>(simd),
            8 => self.grouped::<S, 2, 4>(simd),
            4 => self.grouped::<S, 4, 4>(simd),
            _ => self.grouped::<S, LANES, 1>(simd),
        }
    }
}

impl Weighted<'_> {
    #[inline(always)]
    fn grouped<S: Simd, const V: usize, const Q: usize>(self, simd: S) {
        let Self {
            weights,
            values,
            columns,
            sums,
        } = self;
        let count = values.len() / columns;
        // Powers of two of the remaining queries are computed together, which hides the latency of additions.
        let (mut weights, mut sums) = (weights, sums);
        for queries in [Q, 4, 2, 1] {
            while weights.len() >= queries * count {
                let (these, others) = weights.split_at(queries * count);
                let (of_these, of_others) = sums.split_at_mut(queries * columns);
                match queries {
                    4 if Q != 4 => add::<S, V, 4>(simd, these, values, columns, of_these),
                    2 => add::<S, V, 2>(simd, these, values, columns, of_these),
                    1 => add::<S, V, 1>(simd, these, values, columns, of_these),
                    _ => add::<S, V, Q>(simd, these, values, columns, of_these),
                }
                (weights, sums) = (others, of_others);
            }
        }
    }
}

/// `V` vectors of columns are summed at a time.
#[inline(always)]
fn add<S: Simd, const V: usize, const Q: usize>(
    simd: S,
    weights: &[f32],
    values: &[f32],
    columns: usize,
    sums: &mut [f32],
) {
    let whole = columns / (V * S::F32_LANES) * (V * S::F32_LANES);
    for column in (0..whole).step_by(V * S::F32_LANES) {
        add_columns::<S, V, Q>(simd, weights, values, (column, columns), sums);
    }
    let vectors = columns / S::F32_LANES * S::F32_LANES;
    for column in (whole..vectors).step_by(S::F32_LANES) {
        add_columns::<S, 1, Q>(simd, weights, values, (column, columns), sums);
    }
    let count = values.len() / columns;
    for (query, weights) in weights.chunks_exact(count).enumerate() {
        let sums = &mut sums[query * columns + vectors..][..columns - vectors];
        for (values, weight) in values.chunks_exact(columns).zip(weights) {
            for (sum, value) in sums.iter_mut().zip(&values[vectors..]) {
                *sum = weight.mul_add(*value, *sum);
            }
        }
    }
}

#[inline(always)]
fn add_columns<S: Simd, const V: usize, const Q: usize>(
    simd: S,
    weights: &[f32],
    values: &[f32],
    (column, columns): (usize, usize),
    sums: &mut [f32],
) {
    let (width, count) = (V * S::F32_LANES, values.len() / columns);
    let mut parts = [[simd.splat_f32s(0.0); V]; Q];
    for (query, parts) in parts.iter_mut().enumerate() {
        let sums = &sums[query * columns + column..][..width];
        parts.copy_from_slice(S::as_simd_f32s(sums).0);
    }
    let weights: [&[f32]; Q] = std::array::from_fn(|query| &weights[query * count..][..count]);
    for (at, values) in values.chunks_exact(columns).enumerate() {
        let (values, _) = S::as_simd_f32s(&values[column..][..width]);
        for query in 0..Q {
            let weight = simd.splat_f32s(weights[query][at]);
            for v in 0..V {
                parts[query][v] = simd.mul_add_f32s(weight, values[v], parts[query][v]);
            }
        }
    }
    for (query, parts) in parts.iter().enumerate() {
        let sums = &mut sums[query * columns + column..][..width];
        S::as_mut_simd_f32s(sums).0.copy_from_slice(parts);
    }
}
