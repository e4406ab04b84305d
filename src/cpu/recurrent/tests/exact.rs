//! Plain recurrences in f64, readable next to the papers.

use super::super::super::weight::Weight;
use super::layer::{BIAS, DT_BIAS, KERNEL, Layer, RATE, SKIP, TAPS};
use crate::tape::{GateOrder, StateHeads, UpdateRule};

pub(super) struct Exact {
    layer: Layer,
    heads: StateHeads,
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().copied().map(f64::from).collect()
}

fn weight(layer: &Layer, index: usize) -> Vec<f64> {
    match &layer.weights[index] {
        Weight::Vector(values) => wide(values),
        Weight::Matrix(_) => Vec::new(),
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// The convolution of a position, from the inputs of all positions.
fn convolved(layer: &Layer, inputs: &[Vec<f64>], position: usize) -> Vec<f64> {
    let (kernel, bias) = (weight(layer, KERNEL), weight(layer, BIAS));
    let channel = |channel: usize| {
        let taps = (0..TAPS).filter_map(|tap| {
            let at = (position + tap + 1).checked_sub(TAPS)?;
            Some(kernel[channel * TAPS + tap] * inputs[at][channel])
        });
        bias[channel] + taps.sum::<f64>()
    };
    (0..bias.len()).map(channel).collect()
}

/// (rows, channels) of short convolutions.
pub(super) fn short(layer: &Layer, rows: usize) -> Vec<f64> {
    let inputs: Vec<_> = (0..rows).map(|at| wide(&layer.inputs(at)[0])).collect();
    let channels = inputs[0].len() / 3;
    let products: Vec<Vec<f64>> = inputs
        .iter()
        .map(|row| {
            (0..channels)
                .map(|at| row[at] * row[2 * channels + at])
                .collect()
        })
        .collect();
    let row = |position: usize| {
        let out = convolved(layer, &products, position).into_iter();
        let gates = inputs[position][channels..].to_vec();
        out.zip(gates).map(|(out, gate)| out * gate)
    };
    (0..rows).flat_map(row).collect()
}

impl Exact {
    pub(super) fn new(heads: StateHeads) -> Self {
        Self {
            layer: Layer::new(heads),
            heads,
        }
    }

    /// (rows, heads * value_dim)
    pub(super) fn outputs(&self, rows: usize) -> Vec<f64> {
        let inputs: Vec<_> = (0..rows).map(|at| self.layer.inputs(at)).collect();
        let columns: Vec<_> = inputs.iter().map(|[u, ..]| wide(u)).collect();
        let StateHeads {
            heads,
            value_dim,
            key_dim,
            ..
        } = self.heads;
        let mut states = vec![vec![0.0; key_dim * value_dim]; heads];
        let mut out = Vec::new();
        for (position, [_, steps, betas]) in inputs.iter().enumerate() {
            let row: Vec<_> = convolved(&self.layer, &columns, position)
                .into_iter()
                .map(|value| value * sigmoid(value))
                .collect();
            for (head, state) in states.iter_mut().enumerate() {
                let gates = [steps[head], betas[head]].map(f64::from);
                out.extend(self.token(head, &row, gates, state));
            }
        }
        out
    }

    fn token(&self, head: usize, row: &[f64], gates: [f64; 2], state: &mut [f64]) -> Vec<f64> {
        let of = self.heads;
        let key_head = of.key_head(head);
        let part = |first: usize, index: usize, width: usize| {
            row[first + index * width..][..width].to_vec()
        };
        let rate = weight(&self.layer, RATE)[head];
        let step = (gates[0] + weight(&self.layer, DT_BIAS)[head])
            .exp()
            .ln_1p();
        let decay = (rate * step).exp();
        let beta = sigmoid(gates[1]);
        let unit = |vector: Vec<f64>, scale: f64| -> Vec<f64> {
            let square: f64 = vector.iter().map(|value| value * value).sum();
            let by = scale / (square + 1e-6).sqrt();
            vector.iter().map(|value| value * by).collect()
        };
        let (q, k, v) = match of.rule {
            UpdateRule::Delta => {
                #[allow(clippy::cast_precision_loss)] // small
                let scale = 1.0 / (of.key_dim as f64).sqrt();
                (
                    unit(part(0, key_head, of.key_dim), scale),
                    unit(part(of.keys(), key_head, of.key_dim), 1.0),
                    part(2 * of.keys(), head, of.value_dim),
                )
            }
            UpdateRule::Additive => (
                part(of.values() + of.keys(), key_head, of.key_dim),
                part(of.values(), key_head, of.key_dim),
                part(0, head, of.value_dim),
            ),
        };
        let skip = weight(&self.layer, SKIP)[head];
        let columns = state.chunks_exact_mut(of.key_dim).zip(&v);
        let outputs = columns.map(|(column, value)| {
            column.iter_mut().for_each(|element| *element *= decay);
            let seen: f64 = column.iter().zip(&k).map(|(s, k)| s * k).sum();
            let added = match of.rule {
                UpdateRule::Delta => beta * (value - seen),
                UpdateRule::Additive => step * value,
            };
            for (element, k) in column.iter_mut().zip(&k) {
                *element += added * k;
            }
            let out: f64 = column.iter().zip(&q).map(|(s, q)| s * q).sum();
            match of.rule {
                UpdateRule::Delta => out,
                UpdateRule::Additive => out + skip * value,
            }
        });
        outputs.collect()
    }
}

/// Gated norms of rows of `columns`, in groups.
pub(super) fn gated(
    y: &[f32],
    gate: &[f32],
    norm: &[f32],
    (columns, group): (usize, usize),
    order: GateOrder,
) -> Vec<f64> {
    let (y, gate, norm) = (wide(y), wide(gate), wide(norm));
    let mut out = Vec::new();
    for first in (0..y.len()).step_by(group) {
        let silu = |at: usize| gate[at] * sigmoid(gate[at]);
        let before = |at: usize| match order {
            GateOrder::NormFirst => y[at],
            GateOrder::GateFirst => y[at] * silu(at),
        };
        let all = first..first + group;
        let square: f64 = all.clone().map(|at| before(at) * before(at)).sum();
        #[allow(clippy::cast_precision_loss)] // small
        let by = 1.0 / (square / group as f64 + 1e-5).sqrt();
        for at in all {
            let weight = norm[at % columns % norm.len()];
            let gated = match order {
                GateOrder::NormFirst => silu(at),
                GateOrder::GateFirst => 1.0,
            };
            out.push(before(at) * by * weight * gated);
        }
    }
    out
}
