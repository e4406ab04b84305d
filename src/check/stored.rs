//! Compares the values that an operation has stored in the cache.
//!
//! Numbers are compared with the reference. Quants are compared with the exact values: for a value between two quants,
//! the last bit of a rotation decides, and both are right.

use half::f16;

use super::case::Case;
use super::compare::{Worst, worst};
use super::inputs::Inputs;
use super::world::World;
use super::{Left, decode};
use crate::tape::Op;

/// How far a value may be beyond half a step from its quant: more than f32 norms and rotations differ, in any order.
const NOISE: f64 = 1e-3;
/// The most that a scale may differ, in ulps.
const SCALE_ULPS: f64 = 1.0;

impl World {
    /// Encodes heads of values of K (0) or V (1), (head, position), as the cache does.
    pub(super) fn cached(&self, values: &[f32], side: usize) -> Vec<u8> {
        let (head_dim, element) = (self.kv.kinds[0].head_dim, self.kv.types.sides()[side]);
        let mut bytes = vec![0; values.len() / head_dim * element.bytes(head_dim)];
        let heads = bytes.chunks_exact_mut(element.bytes(head_dim));
        for (bytes, values) in heads.zip(values.chunks_exact(head_dim)) {
            element.encode(values, bytes);
        }
        bytes
    }

    /// The greatest difference of stored K or V from the correct values.
    pub(super) fn worst_stored(
        &self,
        case: &Case,
        inputs: &Inputs,
        [reference, subject]: [&Left; 2],
        side: usize,
    ) -> Worst {
        let [ours, theirs] = [reference, subject].map(|left| self.stored(case, left, side));
        let (head_dim, element) = (self.kv.kinds[0].head_dim, self.kv.types.sides()[side]);
        if let Some(number) = element.number() {
            let [ours, theirs] = [ours, theirs].map(|bytes| decode(number, &bytes));
            return worst(&ours, &theirs, head_dim, number);
        }
        let exact = self.exact(case, inputs, side);
        let norms_v = matches!(case.stores(), Some(Op::RopeStore { norms, .. }) if norms.v);
        let mut worst = Worst::default();
        let bytes = element.bytes(head_dim);
        let rows = theirs.chunks_exact(bytes).zip(ours.chunks_exact(bytes));
        for (row, ((theirs, ours), exact)) in rows.zip(exact.chunks_exact(head_dim)).enumerate() {
            let mut found = worst_quant(theirs, exact);
            // V must be equal, unless it is normed.
            if side == 1 && !norms_v && theirs != ours {
                found.ratio = f64::INFINITY;
            }
            if found.ratio > worst.ratio {
                worst = Worst { row, ..found };
            }
        }
        worst
    }

    /// The stored positions of a case, (slot, head, position).
    pub(super) fn stored(&self, case: &Case, left: &Left, side: usize) -> Vec<u8> {
        let bytes = self.kv.types.sides()[side].bytes(self.kv.kinds[0].head_dim);
        let mut stored = Vec::new();
        for (slot, positions) in case.runs() {
            let values = &left.cache_after[slot][side];
            for head in values.chunks_exact(self.kv.context * bytes) {
                stored.extend(&head[positions.start * bytes..positions.end * bytes]);
            }
        }
        stored
    }

    /// The correct values, (slot, head, position).
    pub(super) fn exact(&self, case: &Case, inputs: &Inputs, side: usize) -> Vec<f64> {
        let (heads, head_dim) = (self.kv.kinds[0].heads, self.kv.kinds[0].head_dim);
        let values = self.turned(case, inputs, 1 + side);
        let (mut exact, mut first) = (Vec::new(), 0);
        for (_, positions) in case.runs() {
            for head in 0..heads {
                for row in first..first + positions.len() {
                    let from = (row * heads + head) * head_dim;
                    exact.extend(&values[from..from + head_dim]);
                }
            }
            first += positions.len();
        }
        exact
    }
}

/// The greatest difference of a head's quants and scales.
#[allow(clippy::cast_possible_truncation)] // shown to people, or about to be rounded further
fn worst_quant(bytes: &[u8], exact: &[f64]) -> Worst {
    let mut worst = Worst::default();
    let (quants, scales) = bytes.split_at(exact.len());
    let block = 2 * exact.len() / scales.len().max(1);
    let blocks = quants.chunks_exact(block).zip(exact.chunks_exact(block));
    for (index, ((quants, exact), scale)) in blocks.zip(scales.as_chunks().0).enumerate() {
        let scale = f16::from_le_bytes(*scale);
        let greatest = exact.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
        let ulps =
            i32::from(scale.to_bits()) - i32::from(f16::from_f64(greatest / 127.0).to_bits());
        for (column, (quant, exact)) in quants.iter().zip(exact).enumerate() {
            let (quant, scale) = (f64::from(quant.cast_signed()), scale.to_f64());
            let belongs = if scale == 0.0 {
                0.0
            } else {
                (exact / scale).clamp(-127.0, 127.0)
            };
            let beyond = ((quant - belongs).abs() - 0.5).max(0.0) / NOISE;
            let ratio = beyond.max(f64::from(ulps.abs()) / SCALE_ULPS);
            if ratio > worst.ratio {
                worst = Worst {
                    ratio,
                    row: 0,
                    column: index * block + column,
                    value: (quant * scale) as f32,
                    reference: *exact as f32,
                };
            }
        }
    }
    worst
}
