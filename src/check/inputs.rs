//! The random inputs of a case, rounded to the types of both executors.

use std::collections::HashMap;
use std::ops::Range;

use super::case::{Case, Logits};
use super::compare::ulp;
use super::world::World;
use crate::quant::DType;
use crate::quant::random::Random;
use crate::tape::{Buffer, KvKind, Op, WeightId};

/// Positions before a window that may be read with it, but do not count. Earlier positions are not read.
const BESIDE_A_WINDOW: usize = 128;

/// The inputs of a case.
#[derive(Clone, Debug, Default)]
pub(super) struct Inputs {
    /// Buffers that are not listed contain NaN.
    pub(super) buffers: Vec<(Buffer, Vec<f32>)>,
    /// K and V of all heads, (head, position, head_dim), by slot. Positions that the case may not read are NaN.
    pub(super) cache: [HashMap<usize, Vec<f32>>; 2],
}

impl World {
    pub(super) fn inputs(&self, case: &Case) -> Inputs {
        let mut random = Random::new(case.seed);
        let buffers = case.reads().into_iter();
        let buffers = buffers.map(|buffer| (buffer, self.buffer(case, buffer, &mut random)));
        let buffers = buffers.collect();
        let readable = |positions: Range<usize>| match *case.op() {
            Op::Attend { attention, .. } => {
                let first = attention.seen_from(positions.start);
                let stored = case.stores().is_some();
                let end = if stored {
                    positions.start
                } else {
                    positions.end
                };
                first.saturating_sub(BESIDE_A_WINDOW)..end
            }
            _ => 0..0,
        };
        let cache = [(); 2].map(|()| {
            let runs = case.runs().into_iter();
            runs.map(|(slot, positions)| {
                let values = self.cache(readable(positions), &mut random);
                (slot, values)
            })
            .collect()
        });
        Inputs { buffers, cache }
    }

    fn buffer(&self, case: &Case, buffer: Buffer, random: &mut Random) -> Vec<f32> {
        let info = case.tape.buffer(buffer);
        let mut values = match *case.op() {
            Op::Sample { .. } => {
                let rows = 0..info.rows as u64;
                return rows
                    .flat_map(|row| logits(case, case.seed ^ (row << 32), info.columns))
                    .collect();
            }
            _ => random.normals(info.rows * info.columns),
        };
        match *case.op() {
            Op::Qkv { norm, epsilon, .. }
            | Op::GateUp { norm, epsilon, .. }
            | Op::Head { norm, epsilon, .. } => {
                for row in values.chunks_exact_mut(info.columns) {
                    let size = 0.3 + 2.0 * random.uniform();
                    row.iter_mut().for_each(|value| *value *= size);
                    self.settle(row, norm, epsilon, case.tape.activation);
                }
            }
            _ => {}
        }
        info.dtype.round(&mut values);
        // Padding rows may contain anything.
        let padding = values.get_mut(case.tokens.len() * info.columns..);
        padding.unwrap_or_default().fill(f32::NAN);
        values
    }

    /// Scales a row so that its rounded norm does not depend on the last bit of a sum. Otherwise an element could
    /// correctly differ by a whole ulp.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // the norm is computed in f64
    fn settle(&self, row: &mut [f32], norm: WeightId, epsilon: f32, activation: DType) {
        /// More than the differences between f32 sums in any order.
        const MARGIN: f64 = 4e-6;
        let weights = self.vector(norm);
        for _ in 0..8 {
            let squares: f64 = row.iter().map(|x| f64::from(*x).powi(2)).sum();
            let scale = 1.0 / (squares / row.len() as f64 + f64::from(epsilon)).sqrt();
            let mut moved = false;
            for (x, weight) in row.iter_mut().zip(&weights) {
                let normed = f64::from(*x) * scale * f64::from(*weight);
                let mut rounded = [normed as f32];
                activation.round(&mut rounded);
                let off = (normed - f64::from(rounded[0])).abs();
                let from_tie = (off - ulp(activation, normed as f32) / 2.0).abs();
                if from_tie < MARGIN * normed.abs() {
                    *x *= 1.0 + 3e-5;
                    moved = true;
                }
            }
            if !moved {
                return;
            }
        }
    }

    fn cache(&self, readable: Range<usize>, random: &mut Random) -> Vec<f32> {
        let kv = self.kv;
        let KvKind {
            heads, head_dim, ..
        } = kv.kinds[0];
        let mut values = vec![f32::NAN; heads * kv.context * head_dim];
        for head in values.chunks_exact_mut(kv.context * head_dim) {
            let readable = readable.start * head_dim..readable.end * head_dim;
            for value in &mut head[readable] {
                *value = random.normal();
            }
        }
        values
    }
}

/// The tokens with high logits in `Peaked`.
pub(super) fn peaks(seed: u64, vocabulary: usize) -> Vec<u32> {
    let mut random = Random::new(!seed);
    let mut peaks = Vec::new();
    while peaks.len() < vocabulary.min(24) {
        let token = random.below(vocabulary);
        if let Ok(token) = u32::try_from(token)
            && !peaks.contains(&token)
        {
            peaks.push(token);
        }
    }
    peaks
}

fn logits(case: &Case, seed: u64, vocabulary: usize) -> Vec<f32> {
    let mut random = Random::new(seed);
    let mut logits: Vec<f32> = (0..vocabulary).map(|_| 3.0 * random.normal()).collect();
    match case.logits {
        Logits::Normal => {}
        Logits::Peaked => {
            logits.iter_mut().for_each(|logit| *logit -= 80.0);
            let mut logit = 12.0;
            for token in peaks(seed, vocabulary) {
                logits[token as usize] = logit;
                logit -= 0.05 + 0.5 * random.uniform();
            }
        }
        Logits::Tied => {
            for token in peaks(seed, vocabulary) {
                logits[token as usize] = 20.0;
            }
        }
        Logits::With(odd) => logits[random.below(vocabulary)] = odd,
    }
    logits
}
