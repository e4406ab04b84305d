//! Rotary position embedding (Su et al. 2021), and the norm of each head before it (Qwen3).

use super::images::Places;
use super::norm::Norm;
use super::threads::{each, piece};
use crate::tape::{Angles, QueryScale, Rotation, Sections};

/// How to rotate heads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rope<'a> {
    angles: Option<&'a Angles>,
    head_dim: usize,
    norm: Option<&'a [f32]>,
    epsilon: f32,
    scale: Option<QueryScale>,
    sections: Option<Sections>,
}

impl<'a> Rope<'a> {
    /// The rotations of q and of k, with their norms. `heads` are the head dimension and the epsilon of the norms.
    pub(super) fn of(
        rotation: Rotation,
        tables: &'a [Angles],
        norms: [Option<&'a [f32]>; 2],
        (head_dim, epsilon): (usize, f32),
    ) -> [Self; 2] {
        let turns = rotation.dims > 0;
        [0, 1].map(|which| Self {
            angles: turns.then(|| &tables[rotation.table]),
            head_dim,
            norm: norms[which],
            epsilon,
            scale: rotation.query_scale.filter(|_| which == 0),
            sections: rotation.sections,
        })
    }

    /// Rotates each head of each row in place by its position; a row has `columns` elements.
    ///
    /// The first elements of a head rotate, twice as many as there are angles. Element `i` pairs with element `i +
    /// angles`.
    pub(super) fn rotate(self, rows: &mut [f32], columns: usize, places: Places<'_>) {
        let pairs = self.angles.map_or(0, |angles| angles.frequencies.len());
        let arch = pulp::Arch::new();
        let piece = piece(rows.len(), columns);
        each(
            rows.chunks_mut(piece).enumerate(),
            |(index, rows): (usize, &mut [f32])| {
                let mut turns = vec![(0.0_f32, 0.0_f32); pairs];
                let first = index * (piece / columns);
                for (row, heads) in (first..).zip(rows.chunks_exact_mut(columns)) {
                    let (turned, sections) = (places.turned(row), self.sections);
                    let angles = self.angles.iter();
                    let angles = angles.flat_map(|angles| angles.by(turned, sections));
                    let position = places.position + row;
                    for (turn, angle) in turns.iter_mut().zip(angles) {
                        *turn = angle;
                    }
                    for head in heads.chunks_exact_mut(self.head_dim) {
                        self.turn(arch, head, &turns, position);
                    }
                }
            },
        );
    }

    fn turn(self, arch: pulp::Arch, head: &mut [f32], turns: &[(f32, f32)], position: usize) {
        if let Some(weight) = self.norm {
            arch.dispatch(Norm {
                x: head,
                weight: Some(weight),
                epsilon: self.epsilon,
            });
        }
        let (first, second) = head[..2 * turns.len()].split_at_mut(turns.len());
        for ((a, b), (sin, cos)) in first.iter_mut().zip(second).zip(turns) {
            (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
        }
        if let Some(scale) = self.scale {
            let by = scale.at(position);
            head.iter_mut().for_each(|value| *value *= by);
        }
    }
}
