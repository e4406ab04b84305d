//! RMS norms of groups of columns, with a gate before or after them.

use pulp::{Simd, WithSimd};

use super::super::exp::exp;
use super::super::norm::Norm;
use super::super::threads::{each, piece};
use crate::tape::GateOrder;

/// How rows are normed.
#[derive(Clone, Copy, Debug)]
pub(super) struct GatedNorm<'a> {
    pub(super) columns: usize,
    pub(super) group: usize,
    pub(super) order: GateOrder,
    /// (group) or (columns)
    pub(super) weight: &'a [f32],
    pub(super) epsilon: f32,
}

impl GatedNorm<'_> {
    /// Norms rows of y, gated; all are (rows, columns).
    pub(super) fn run(self, y: &[f32], gate: &[f32], out: &mut [f32]) {
        let (piece, arch) = (piece(out.len(), self.columns), pulp::Arch::new());
        let inputs = y.chunks(piece).zip(gate.chunks(piece));
        each(
            out.chunks_mut(piece).zip(inputs),
            |(out, (y, gate)): (&mut [f32], (&[f32], &[f32]))| {
                out.copy_from_slice(y);
                for (index, out) in out.chunks_exact_mut(self.group).enumerate() {
                    let at = index * self.group;
                    // The group's columns within a row.
                    let first = if self.weight.len() == self.group {
                        0
                    } else {
                        at % self.columns
                    };
                    arch.dispatch(Gated {
                        x: out,
                        gate: &gate[at..at + self.group],
                        weight: &self.weight[first..first + self.group],
                        order: self.order,
                        epsilon: self.epsilon,
                    });
                }
            },
        );
    }
}

/// Norms one group in place.
struct Gated<'a> {
    x: &'a mut [f32],
    gate: &'a [f32],
    weight: &'a [f32],
    order: GateOrder,
    epsilon: f32,
}

impl WithSimd for Gated<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            x,
            gate,
            weight,
            order,
            epsilon,
        } = self;
        if order == GateOrder::GateFirst {
            multiply(x, gate);
        }
        let norm = Norm {
            x: &mut *x,
            weight: Some(weight),
            epsilon,
        };
        norm.with_simd(simd);
        if order == GateOrder::NormFirst {
            multiply(x, gate);
        }
    }
}

/// `x *= silu(gate)`
#[inline(always)]
fn multiply(x: &mut [f32], gate: &[f32]) {
    for (x, gate) in x.iter_mut().zip(gate) {
        *x *= gate / (1.0 + exp(-gate));
    }
}
