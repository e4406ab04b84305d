//! Attention that rounds its queries itself: one that is nearly in the middle of two neighbours may become either of them,
//! because each executor adds the squares of a norm and the products of a rotation in its own order.

use super::case::Case;
use super::compare::ulp;
use super::inputs::Inputs;
use super::world::World;
use crate::quant::DType;
use crate::tape::Op;

/// The part of a value by which executors may differ before they round it: some steps of f32.
const APART: f64 = 1.0 / (1 << 20) as f64;

impl World {
    /// Returns how far each result of attention moves in all if queries near a middle become their other neighbours. Nothing
    /// for other operations.
    pub(super) fn moved_by_ties(&self, case: &Case, inputs: &Inputs) -> Vec<f64> {
        let Op::Attend { q, .. } = *case.op() else {
            return Vec::new();
        };
        if case.rotates().is_none() {
            return Vec::new();
        }
        let info = case.tape.buffer(q);
        let (columns, head_dim) = (info.columns, self.kv.kinds[0].head_dim);
        let (queries, exact) = (self.queries(case, inputs), self.turned(case, inputs, 0));
        let mut moved = vec![0.0; case.rows().len() * columns];
        for (row, moved) in moved.chunks_mut(columns).enumerate() {
            let cache = self.attended_cache(case, inputs, row);
            for (head, moved) in moved.chunks_mut(head_dim).enumerate() {
                let from = row * columns + head * head_dim;
                let mut query = queries[from..][..head_dim].to_vec();
                let attended = self.attended_head(case, (row, head), &query, &cache);
                for at in 0..head_dim {
                    let Some(other) = other_neighbour(exact[from + at], query[at], info.dtype)
                    else {
                        continue;
                    };
                    let rounded = std::mem::replace(&mut query[at], other);
                    let others = self.attended_head(case, (row, head), &query, &cache);
                    query[at] = rounded;
                    for (moved, (one, other)) in moved.iter_mut().zip(attended.iter().zip(others)) {
                        *moved += (one - other).abs();
                    }
                }
            }
        }
        moved
    }
}

/// Returns the neighbour that a value could also be rounded to; `None` unless it is nearly in the middle.
#[allow(clippy::cast_possible_truncation)] // neighbours are numbers of the type
fn other_neighbour(exact: f64, rounded: f32, dtype: DType) -> Option<f32> {
    if dtype == DType::F32 {
        return None;
    }
    let off = exact - f64::from(rounded);
    let step = ulp(dtype, exact as f32);
    let to_middle = step / 2.0 - off.abs();
    (to_middle < APART * exact.abs()).then(|| (f64::from(rounded) + step.copysign(off)) as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_value_near_a_middle_has_another_neighbour() {
        let next = 1.0 + 2.0_f32.powi(-7);
        let step = 2.0_f64.powi(-7);
        for (exact, rounded, other) in [
            (1.0 + 0.5 * step * (1.0 - 1e-6), 1.0, Some(1.0 + step)),
            (1.0 + 0.5 * step * (1.0 + 1e-6), next, Some(1.0)),
            (-1.0 - 0.5 * step, -1.0, Some(-1.0 - step)),
            (1.0 + 0.49 * step, 1.0, None),
            (1.0, 1.0, None),
        ] {
            let found = other_neighbour(exact, rounded, DType::BF16);
            assert_eq!(found.map(f64::from), other, "{exact}");
        }
        assert_eq!(
            other_neighbour(1.0 + 2.0_f64.powi(-24), 1.0, DType::F32),
            None
        );
    }
}
