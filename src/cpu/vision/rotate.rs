//! The norms of heads, and their rotation in two dimensions.

use super::super::norm::Norm;
use super::super::threads::{each, piece};

/// The heads of a row, and their norms.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_field_names)] // the number of heads has no better name
pub(super) struct Heads<'a> {
    pub(super) heads: usize,
    pub(super) head_dim: usize,
    /// The norms of q and of k, each (head_dim)
    pub(super) norms: [Option<&'a [f32]>; 2],
    pub(super) norms_values: bool,
    pub(super) epsilon: f32,
    /// Parts of a head that rotate by themselves.
    pub(super) parts: usize,
}

/// Norms and rotates rows `[q | k | v]`: turns are (rows, head_dim), `[cos, sin]` of each pair of a head.
pub(super) fn rotate(how: Heads<'_>, qkv: &[f32], turns: &[f32], out: &mut [f32]) {
    let Heads {
        heads, head_dim, ..
    } = how;
    let columns = 3 * heads * head_dim;
    let piece = piece(out.len(), columns);
    let rows = qkv
        .chunks(piece)
        .zip(turns.chunks(piece / columns * head_dim));
    each(
        rows.zip(out.chunks_mut(piece)),
        |((qkv, turns), out): ((&[f32], &[f32]), &mut [f32])| {
            out.copy_from_slice(qkv);
            let rows = out.chunks_exact_mut(columns);
            for (row, turns) in rows.zip(turns.chunks_exact(head_dim)) {
                let turns = turns.as_chunks().0;
                for (index, head) in row.chunks_exact_mut(head_dim).enumerate() {
                    how.head(index / heads, head, turns);
                }
            }
        },
    );
}

impl Heads<'_> {
    /// Norms and rotates a head of q (0), k (1) or v (2).
    fn head(self, which: usize, head: &mut [f32], turns: &[[f32; 2]]) {
        let weight = self.norms.get(which).copied().flatten();
        if weight.is_some() || (which == 2 && self.norms_values) {
            pulp::Arch::new().dispatch(Norm {
                x: &mut *head,
                weight,
                epsilon: self.epsilon,
            });
        }
        if which == 2 {
            return;
        }
        let part = head.len() / self.parts;
        let parts = head.chunks_exact_mut(part);
        for (part, turns) in parts.zip(turns.chunks_exact(part / 2)) {
            let (first, second) = part.split_at_mut(part.len() / 2);
            for ((a, b), [cos, sin]) in first.iter_mut().zip(second).zip(turns) {
                (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
            }
        }
    }
}
