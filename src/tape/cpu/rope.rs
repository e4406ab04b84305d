//! Rotary position embedding (Su et al. 2021), and the norm of each head before it (Qwen3).

use rayon::prelude::*;

use super::norm::Norm;

/// How to rotate the rows of one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rope<'a> {
    /// (head_dim / 2): radians per position
    pub(super) frequencies: &'a [f32],
    pub(super) epsilon: f32,
    /// Of the first row.
    pub(super) position: usize,
}

impl Rope<'_> {
    /// Rotates each head of each row in place; a row has `columns` elements, a head twice as many as
    /// there are frequencies, and element `i` pairs with `i + head_dim / 2`.
    pub(super) fn rotate(self, rows: &mut [f32], columns: usize, norm: Option<&[f32]>) {
        let pairs = self.frequencies.len();
        let arch = pulp::Arch::new();
        rows.par_chunks_exact_mut(columns)
            .enumerate()
            .for_each_init(
                || vec![(0.0_f32, 0.0_f32); pairs],
                |angles, (row, heads)| {
                    #[allow(clippy::cast_precision_loss)] // as the reference computes it, in f32
                    let position = (self.position + row) as f32;
                    for (angle, frequency) in angles.iter_mut().zip(self.frequencies) {
                        *angle = (position * frequency).sin_cos();
                    }
                    for head in heads.chunks_exact_mut(2 * pairs) {
                        if let Some(weight) = norm {
                            arch.dispatch(Norm {
                                x: head,
                                weight,
                                epsilon: self.epsilon,
                            });
                        }
                        let (first, second) = head.split_at_mut(pairs);
                        for ((a, b), (sin, cos)) in first.iter_mut().zip(second).zip(&*angles) {
                            (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
                        }
                    }
                },
            );
    }
}
