//! Rotary position embedding (Su et al. 2021), and the norm of each head before it (Qwen3).

use rayon::prelude::*;

use super::norm::Norm;
use crate::tape::{Angles, QueryScale, Rotation};

/// How to rotate heads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rope<'a> {
    angles: Option<&'a Angles>,
    head_dim: usize,
    norm: Option<&'a [f32]>,
    epsilon: f32,
    scale: Option<QueryScale>,
}

impl<'a> Rope<'a> {
    /// Those of q and of k, whose heads have a dimension, perhaps norms, and the epsilon of those.
    pub(super) fn of(
        rotation: Rotation,
        tables: &'a [Angles],
        (head_dim, norms, epsilon): (usize, Option<[&'a [f32]; 2]>, f32),
    ) -> [Self; 2] {
        let turns = rotation.dims > 0;
        [0, 1].map(|which| Self {
            angles: turns.then(|| &tables[rotation.table]),
            head_dim,
            norm: norms.map(|norms| norms[which]),
            epsilon,
            scale: rotation.query_scale.filter(|_| which == 0),
        })
    }

    /// Rotates each head of each row in place, from a position on; a row has `columns` elements. Of a head the first
    /// elements turn, twice as many as there are angles: element `i` pairs with the one that is as many further as there
    /// are angles.
    pub(super) fn rotate(self, rows: &mut [f32], columns: usize, position: usize) {
        let pairs = self.angles.map_or(0, |angles| angles.frequencies.len());
        let arch = pulp::Arch::new();
        rows.par_chunks_exact_mut(columns)
            .enumerate()
            .for_each_init(
                || vec![(0.0_f32, 0.0_f32); pairs],
                |turns, (row, heads)| {
                    let position = position + row;
                    for (turn, angle) in turns
                        .iter_mut()
                        .zip(self.angles.iter().flat_map(|a| a.at(position)))
                    {
                        *turn = angle;
                    }
                    for head in heads.chunks_exact_mut(self.head_dim) {
                        if let Some(weight) = self.norm {
                            arch.dispatch(Norm {
                                x: head,
                                weight,
                                epsilon: self.epsilon,
                            });
                        }
                        let (first, second) = head[..2 * pairs].split_at_mut(pairs);
                        for ((a, b), (sin, cos)) in first.iter_mut().zip(second).zip(&*turns) {
                            (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
                        }
                        if let Some(scale) = self.scale {
                            let by = scale.at(position);
                            head.iter_mut().for_each(|value| *value *= by);
                        }
                    }
                },
            );
    }
}
