//! The geometry of an image, computed by the host in f32: the position embeddings of its patches, and the angles that q
//! and k turn by.

use super::shape::{Axis, Grid, Positions, TowerRotation, TowerShape};

/// A table of position embeddings in the host's memory.
#[derive(Clone, Debug)]
pub struct PositionTable {
    /// (positions, hidden): for `Positions::Axes` the columns' positions, then the rows'.
    pub values: Vec<f32>,
    /// The positions of a side.
    pub length: usize,
}

/// The positions of a table that one row or column of patches mixes, with their weights.
type Taps = Vec<(usize, f32)>;

impl PositionTable {
    /// Calls `take` with the position embeddings of consecutive patches, in the order of the tower, from the given
    /// patch on.
    ///
    /// # Errors
    /// The first error of `take`.
    pub fn rows<E>(
        &self,
        shape: &TowerShape,
        grid: Grid,
        mut take: impl FnMut(usize, &[f32]) -> Result<(), E>,
    ) -> Result<(), E> {
        let hidden = shape.hidden;
        let axes = matches!(shape.positions, Positions::Axes { .. });
        let [down, across] = [grid.rows, grid.columns].map(|patches| Self::taps(shape, patches));
        let of = |position: usize| &self.values[position * hidden..][..hidden];
        // A row of patches, before its columns are mixed: (length, hidden).
        let mut mixed = vec![0.0; if axes { 0 } else { self.length * hidden }];
        let side = if shape.patch.in_blocks {
            shape.projector.side
        } else {
            1
        };
        let mut rows = vec![0.0; side * grid.columns * hidden];
        for band in 0..grid.rows / side {
            for (within, taps) in down[band * side..][..side].iter().enumerate() {
                if !axes {
                    mixed.fill(0.0);
                    for (row, weight) in taps {
                        let stored = &self.values[row * self.length * hidden..];
                        for (to, from) in mixed.iter_mut().zip(stored) {
                            *to += weight * from;
                        }
                    }
                }
                for (column, across) in across.iter().enumerate() {
                    // The place of the patch within the band, whose squares follow each other.
                    let place = column / side * side * side + within * side + column % side;
                    let to = &mut rows[place * hidden..][..hidden];
                    to.fill(0.0);
                    if axes {
                        let row = self.length + taps[0].0;
                        for (to, (x, y)) in to.iter_mut().zip(of(across[0].0).iter().zip(of(row))) {
                            *to = x + y;
                        }
                        continue;
                    }
                    for (from, weight) in across {
                        let from = &mixed[from * hidden..][..hidden];
                        for (to, from) in to.iter_mut().zip(from) {
                            *to += weight * from;
                        }
                    }
                }
            }
            take(band * side * grid.columns, &rows)?;
        }
        Ok(())
    }

    /// Returns the positions that each of `patches` rows or columns mixes.
    fn taps(shape: &TowerShape, patches: usize) -> Vec<Taps> {
        (0..patches)
            .map(|patch| match shape.positions {
                Positions::Fixed { .. } | Positions::Axes { .. } => vec![(patch, 1.0)],
                Positions::Stretched { side } => stretched(patch, patches, side),
                Positions::Resized { side } => resized(patch, patches, side),
            })
            .collect()
    }
}

/// Linear interpolation in which the first and last patches meet the ends of the table.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)] // sides are far below 2^24
fn stretched(patch: usize, patches: usize, side: usize) -> Taps {
    let last = (patches - 1).max(1) as f32;
    let at = patch as f32 * (side - 1) as f32 / last;
    let first = (at as usize).min(side - 1);
    let part = at - first as f32;
    let second = (first + 1).min(side - 1);
    vec![(first, 1.0 - part), (second, part)]
}

/// Linear interpolation that averages over the positions of the table that a patch covers.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)] // sides are far below 2^24
fn resized(patch: usize, patches: usize, side: usize) -> Taps {
    let scale = side as f32 / patches as f32;
    let support = scale.max(1.0);
    let center = (patch as f32 + 0.5) * scale;
    let first = (center - support + 0.5).max(0.0) as usize;
    let end = ((center + support + 0.5) as usize).min(side);
    let weight = |at: usize| (1.0 - ((at as f32 - center + 0.5) / support).abs()).max(0.0);
    let sum: f32 = (first..end).map(weight).sum();
    (first..end).map(|at| (at, weight(at) / sum)).collect()
}

impl TowerRotation {
    /// Appends `[cos, sin]` of each pair of a head, for all patches in the order of the tower: (patches, head_dim).
    pub fn turns(&self, shape: &TowerShape, grid: Grid, out: &mut Vec<f32>) {
        let pairs = shape.head_dim / 4;
        let frequencies: Vec<f32> = (0..pairs)
            .map(|pair| self.frequency(pair, shape.head_dim))
            .collect();
        // Those of each row and column: (patches of the side, pairs).
        let [down, across] = [grid.rows, grid.columns].map(|patches| {
            let turn = |patch: usize, frequency: &f32| {
                #[allow(clippy::cast_precision_loss)] // sides are far below 2^24
                let (sin, cos) = (patch as f32 * frequency).sin_cos();
                [cos, sin]
            };
            let turns = (0..patches).flat_map(|patch| {
                let frequencies = frequencies.iter();
                frequencies.flat_map(move |frequency| turn(patch, frequency))
            });
            turns.collect::<Vec<f32>>()
        });
        for (row, column) in patches(shape, grid) {
            for axis in self.axes {
                let (turns, at) = match axis {
                    Axis::Row => (&down, row),
                    Axis::Column => (&across, column),
                };
                out.extend_from_slice(&turns[at * 2 * pairs..][..2 * pairs]);
            }
        }
    }

    /// Radians per patch of a pair. Each axis turns half of a head.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // float32 is the reference
    fn frequency(&self, pair: usize, head_dim: usize) -> f32 {
        let exponent = (2 * pair) as f32 / (head_dim / 2) as f32;
        1.0 / (self.theta as f32).powf(exponent)
    }
}

/// The row and column of each patch, in the order of the tower.
fn patches(shape: &TowerShape, grid: Grid) -> impl Iterator<Item = (usize, usize)> {
    let side = if shape.patch.in_blocks {
        shape.projector.side
    } else {
        1
    };
    let wide = grid.columns / side;
    (0..grid.patches()).map(move |patch| {
        let (square, within) = (patch / (side * side), patch % (side * side));
        (
            square / wide * side + within / side,
            square % wide * side + within % side,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{resized, stretched};

    /// Sums of weights are 1, and a table of the grid's own size is not changed.
    #[test]
    #[allow(clippy::float_cmp)] // these values are exact
    fn weights_sum_to_one_and_equal_sides_change_nothing() {
        for taps in [stretched, resized] {
            for (patches, side) in [(1, 16), (2, 8), (10, 8), (8, 8), (80, 48), (3, 16)] {
                for patch in 0..patches {
                    let taps = taps(patch, patches, side);
                    let sum: f32 = taps.iter().map(|(_, weight)| weight).sum();
                    assert!((sum - 1.0).abs() < 1e-6, "{patch} of {patches}: {taps:?}");
                    assert!(taps.iter().all(|(at, _)| *at < side));
                }
            }
            let same = taps(5, 8, 8)
                .into_iter()
                .filter(|(_, weight)| *weight > 0.0);
            assert_eq!(same.collect::<Vec<_>>(), [(5, 1.0)]);
        }
        assert_eq!(stretched(79, 80, 48)[0], (47, 1.0));
    }
}
