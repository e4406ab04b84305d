//! The update and the queries of each row, before they meet a state.

use pulp::{Simd, WithSimd};

use super::super::dots::dot;
use super::super::threads::{each, piece};
use crate::tape::{StateHeads, UpdateRule};

/// Above this, softplus is its argument.
const LINEAR: f32 = 20.0;

/// What a row's update is made of, besides its keys and values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gates<'a> {
    /// (rows, heads): a of DeltaNet, dt of Mamba-2
    pub(super) steps: &'a [f32],
    /// (rows, heads): b of DeltaNet
    pub(super) betas: Option<&'a [f32]>,
    /// (heads)
    pub(super) rate: &'a [f32],
    /// (heads)
    pub(super) dt_bias: &'a [f32],
    /// Added to the sums of squares of q and k.
    pub(super) epsilon: f32,
}

/// Elements of a prepared row: its update, then its queries.
pub(super) const fn prepared(heads: StateHeads) -> usize {
    heads.update() + heads.keys()
}

/// Prepares rows: input is (rows, channels), out (rows, `prepared`).
pub(super) fn prepare(heads: StateHeads, gates: Gates<'_>, input: &[f32], out: &mut [f32]) {
    let channels = 2 * heads.keys() + heads.values();
    let (width, arch) = (prepared(heads), pulp::Arch::new());
    let piece = piece(out.len(), width);
    each(
        out.chunks_mut(piece).enumerate(),
        |(index, out): (usize, &mut [f32])| {
            let first = index * (piece / width);
            for (row, out) in (first..).zip(out.chunks_exact_mut(width)) {
                arch.dispatch(Prepare {
                    heads,
                    gates,
                    row,
                    input: &input[row * channels..][..channels],
                    out,
                });
            }
        },
    );
}

struct Prepare<'a> {
    heads: StateHeads,
    gates: Gates<'a>,
    row: usize,
    input: &'a [f32],
    out: &'a mut [f32],
}

impl WithSimd for Prepare<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            heads,
            gates,
            row,
            input,
            out,
        } = self;
        let (update, queries) = out.split_at_mut(heads.update());
        let (keys, rest) = update.split_at_mut(heads.keys());
        let (values, scalars) = rest.split_at_mut(heads.values());
        let (decays, betas) = scalars.split_at_mut(heads.heads);
        let of_row = |gate: &[f32], head: usize| gate[row * heads.heads + head];
        match heads.rule {
            UpdateRule::Delta => {
                let (q, rest) = input.split_at(heads.keys());
                let (k, v) = rest.split_at(heads.keys());
                queries.copy_from_slice(q);
                keys.copy_from_slice(k);
                values.copy_from_slice(v);
                #[allow(clippy::cast_precision_loss)] // a head is far narrower than 2^24
                let scale = 1.0 / (heads.key_dim as f32).sqrt();
                for (rows, by) in [(&mut *queries, scale), (keys, 1.0)] {
                    for head in rows.chunks_exact_mut(heads.key_dim) {
                        let norm = by / (dot(simd, head, head) + gates.epsilon).sqrt();
                        head.iter_mut().for_each(|value| *value *= norm);
                    }
                }
            }
            UpdateRule::Additive => {
                let (x, rest) = input.split_at(heads.values());
                let (b, c) = rest.split_at(heads.keys());
                queries.copy_from_slice(c);
                keys.copy_from_slice(b);
                values.copy_from_slice(x);
            }
        }
        let of_heads = values.chunks_exact_mut(heads.value_dim).zip(decays);
        for (head, (values, decay)) in of_heads.enumerate() {
            let step = softplus(of_row(gates.steps, head) + gates.dt_bias[head]);
            *decay = (gates.rate[head] * step).exp();
            if heads.rule == UpdateRule::Additive {
                values.iter_mut().for_each(|value| *value *= step);
            }
        }
        if let Some(given) = gates.betas {
            for (head, beta) in betas.iter_mut().enumerate() {
                *beta = 1.0 / (1.0 + (-of_row(given, head)).exp());
            }
        }
    }
}

/// `ln(1 + e^x)`
fn softplus(x: f32) -> f32 {
    if x > LINEAR { x } else { x.exp().ln_1p() }
}
