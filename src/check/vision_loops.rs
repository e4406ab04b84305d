//! Plain loops in f64 for the operations of vision towers, to compare with the papers.

use std::collections::HashMap;

use super::case::Case;
use super::inputs::Inputs;
use super::world::World;
use crate::tape::{Activation, Buffer, HeadNorms, Norm, NormKind, Op, Tape, Vision, WeightId};

/// The values of each buffer.
type Values = HashMap<Buffer, Vec<f64>>;

impl World {
    /// Returns the values of the last output of a case with operations of a vision tower; `None` for other cases.
    pub(super) fn seen(&self, case: &Case, inputs: &Inputs) -> Option<Vec<f64>> {
        let mut values = Values::new();
        for (buffer, input) in &inputs.buffers {
            let input = input.iter().copied().map(f64::from).collect();
            values.insert(*buffer, input);
        }
        let mut last = None;
        for op in &case.tape.ops {
            let Op::Vision(op) = op else {
                return None;
            };
            let out = op.buffers().1[0];
            let info = case.tape.buffer(out);
            let held = values.remove(&out);
            let mut filled = held.unwrap_or_else(|| vec![f64::NAN; info.rows * info.columns]);
            self.loops(op, &case.tape, &values, &mut filled);
            // Buffers are rounded to their types.
            let mut rounded = narrowed(&filled);
            info.dtype.round(&mut rounded);
            values.insert(out, rounded.into_iter().map(f64::from).collect());
            last = Some(filled);
        }
        last
    }

    #[allow(clippy::too_many_lines)] // an arm for each operation
    fn loops(&self, op: &Vision, tape: &Tape, values: &Values, out: &mut [f64]) {
        let columns = |buffer: Buffer| tape.buffer(buffer).columns;
        let wide = columns(op.buffers().1[0]);
        match *op {
            Vision::Norm { x, norm, .. } => {
                let rows = values[&x].chunks(columns(x));
                for (x, out) in rows.zip(out.chunks_mut(wide)) {
                    out.copy_from_slice(&self.normed(x, &norm));
                }
            }
            Vision::Linear {
                input,
                weight,
                bias,
                clip,
                activation,
                adds,
                first,
                ..
            } => {
                let (matrix, width) = (self.matrix(weight), columns(input));
                let bias = bias.map(|bias| self.vector(bias));
                for (row, out) in values[&input].chunks(width).zip(out.chunks_mut(wide)) {
                    let mut row = narrowed(row);
                    if let Some(clip) = clip {
                        let [least, most] = clip.input;
                        row.iter_mut().for_each(|x| *x = x.clamp(least, most));
                    }
                    tape.activation.round(&mut row);
                    for (output, weights) in matrix.chunks(width).enumerate() {
                        let pairs = weights.iter().zip(&row);
                        let mut y: f64 = pairs.map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
                        y += bias.as_ref().map_or(0.0, |bias| f64::from(bias[output]));
                        if let Some(clip) = clip {
                            let [least, most] = clip.output.map(f64::from);
                            y = y.clamp(least, most);
                        }
                        let y = activation.map_or(y, |activation| activated(activation, y));
                        let out = &mut out[first + output];
                        *out = if adds { *out + y } else { y };
                    }
                }
            }
            Vision::Rotate {
                qkv,
                heads,
                norms,
                epsilon,
                parts,
                turns,
                ..
            } => {
                let head_dim = columns(turns);
                out.copy_from_slice(&values[&qkv]);
                let rows = out.chunks_mut(wide).zip(values[&turns].chunks(head_dim));
                for (row, turns) in rows {
                    for (index, head) in row.chunks_mut(head_dim).enumerate() {
                        self.turned_head(index / heads, head, (norms, epsilon), parts, turns);
                    }
                }
            }
            Vision::Attend {
                qkv, heads, scale, ..
            } => attended_by_all(&values[&qkv], heads, f64::from(scale), wide, out),
            Vision::Merge { x, square, .. } => {
                let (x, narrow, side) = (&values[&x], columns(x), square.side);
                for (token, out) in out.chunks_mut(wide).enumerate() {
                    for down in 0..side {
                        for across in 0..side {
                            let from = square.row(token, (down, across)) * narrow;
                            let to = (down * side + across) * narrow;
                            out[to..to + narrow].copy_from_slice(&x[from..from + narrow]);
                        }
                    }
                }
            }
            Vision::Pool {
                x,
                square,
                scale,
                standard,
                ..
            } => {
                let (x, side) = (&values[&x], square.side);
                let standard = standard.map(|of| of.map(|of| self.vector(of)));
                for (token, out) in out.chunks_mut(wide).enumerate() {
                    for (column, out) in out.iter_mut().enumerate() {
                        let mut sum = 0.0;
                        for down in 0..side {
                            for across in 0..side {
                                sum += x[square.row(token, (down, across)) * wide + column];
                            }
                        }
                        #[allow(clippy::cast_precision_loss)] // a square has few patches
                        let mean = sum / square.patches() as f64;
                        *out = mean * f64::from(scale);
                        if let Some([bias, factor]) = &standard {
                            *out = (*out - f64::from(bias[column])) * f64::from(factor[column]);
                        }
                    }
                }
            }
        }
    }

    #[allow(clippy::cast_precision_loss)] // rows are far shorter than 2^52
    fn normed(&self, x: &[f64], norm: &Norm) -> Vec<f64> {
        let count = x.len() as f64;
        let mean = match norm.kind {
            NormKind::Layer => x.iter().sum::<f64>() / count,
            NormKind::RootMeanSquare => 0.0,
        };
        let squares: f64 = x.iter().map(|x| (x - mean).powi(2)).sum();
        let divisor = (squares / count + f64::from(norm.epsilon)).sqrt();
        let of = |id: Option<WeightId>| id.map(|id| self.vector(id));
        let (weight, bias) = (of(norm.weight), of(norm.bias));
        let values = x.iter().enumerate().map(|(column, x)| {
            let by = weight.as_ref().map_or(1.0, |by| f64::from(by[column]));
            let added = bias.as_ref().map_or(0.0, |of| f64::from(of[column]));
            (x - mean) / divisor * by + added
        });
        values.collect()
    }

    /// Norms and rotates a head of q (0), k (1) or v (2).
    fn turned_head(
        &self,
        which: usize,
        head: &mut [f64],
        (norms, epsilon): (HeadNorms, f32),
        parts: usize,
        turns: &[f64],
    ) {
        let (weight, is_normed) = match which {
            0 => (norms.q, norms.q.is_some()),
            1 => (norms.k, norms.k.is_some()),
            _ => (None, norms.v),
        };
        if is_normed {
            let norm = Norm {
                kind: NormKind::RootMeanSquare,
                weight,
                bias: None,
                epsilon,
            };
            head.copy_from_slice(&self.normed(head, &norm));
        }
        if which == 2 {
            return;
        }
        let part = head.len() / parts;
        for (index, part_of) in head.chunks_mut(part).enumerate() {
            for pair in 0..part / 2 {
                let turn = 2 * (index * part / 2 + pair);
                let (cos, sin) = (turns[turn], turns[turn + 1]);
                let (a, b) = (part_of[pair], part_of[pair + part / 2]);
                part_of[pair] = a * cos - b * sin;
                part_of[pair + part / 2] = b * cos + a * sin;
            }
        }
    }
}

/// Attention of each row to all rows; a row of qkv is `[q | k | v]`.
fn attended_by_all(qkv: &[f64], heads: usize, scale: f64, width: usize, out: &mut [f64]) {
    let (rows, head_dim) = (out.len() / width, width / heads);
    let part = |row: usize, which: usize, head: usize| {
        &qkv[row * 3 * width + which * width + head * head_dim..][..head_dim]
    };
    for row in 0..rows {
        for head in 0..heads {
            let q = part(row, 0, head);
            let scores = (0..rows).map(|other| {
                let k = part(other, 1, head);
                scale * q.iter().zip(k).map(|(q, k)| q * k).sum::<f64>()
            });
            let scores: Vec<f64> = scores.collect();
            let greatest = scores.iter().copied().fold(f64::MIN, f64::max);
            let weights = scores.iter().map(|score| (score - greatest).exp());
            let weights: Vec<f64> = weights.collect();
            let all: f64 = weights.iter().sum();
            let out = &mut out[row * width + head * head_dim..][..head_dim];
            out.fill(0.0);
            for (other, weight) in weights.iter().enumerate() {
                for (out, v) in out.iter_mut().zip(part(other, 2, head)) {
                    *out += weight / all * v;
                }
            }
        }
    }
}

fn activated(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::GeluTanh => {
            let root = (2.0 / std::f64::consts::PI).sqrt();
            0.5 * x * (1.0 + (root * (x + 0.044_715 * x.powi(3))).tanh())
        }
        Activation::Gelu => 0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2)),
        Activation::SquaredRelu => x.max(0.0).powi(2),
        Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
    }
}

/// The series of the error function around 0. Beyond 5 it is 1 in f32.
fn erf(x: f64) -> f64 {
    if x.abs() > 5.0 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200_u32 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}

#[allow(clippy::cast_possible_truncation)] // as executors hold them
fn narrowed(values: &[f64]) -> Vec<f32> {
    values.iter().map(|value| *value as f32).collect()
}
