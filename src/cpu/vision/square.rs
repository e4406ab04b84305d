//! Squares of patches that become tokens.

use super::super::threads::{each, piece};
use crate::tape::Square;

/// Concatenates the patches of each square; a patch has `columns`.
pub(super) fn merge(x: &[f32], columns: usize, square: Square, out: &mut [f32]) {
    let wide = square.patches() * columns;
    let piece = piece(out.len(), wide);
    each(
        out.chunks_mut(piece).enumerate(),
        |(index, out): (usize, &mut [f32])| {
            let first = index * (piece / wide);
            for (token, out) in (first..).zip(out.chunks_exact_mut(wide)) {
                for (out, row) in out.chunks_exact_mut(columns).zip(rows(square, token)) {
                    out.copy_from_slice(&x[row * columns..][..columns]);
                }
            }
        },
    );
}

/// Averages the patches of each square; a patch has `columns`.
pub(super) fn pool(
    x: &[f32],
    columns: usize,
    (square, scale): (Square, f32),
    standard: Option<[&[f32]; 2]>,
    out: &mut [f32],
) {
    #[allow(clippy::cast_precision_loss)] // a square has few patches
    let count = square.patches() as f32;
    let piece = piece(out.len(), columns);
    each(
        out.chunks_mut(piece).enumerate(),
        |(index, out): (usize, &mut [f32])| {
            let first = index * (piece / columns);
            for (token, out) in (first..).zip(out.chunks_exact_mut(columns)) {
                out.fill(0.0);
                for row in rows(square, token) {
                    let patch = &x[row * columns..][..columns];
                    out.iter_mut().zip(patch).for_each(|(out, x)| *out += x);
                }
                out.iter_mut().for_each(|out| *out = *out / count * scale);
                if let Some([bias, factor]) = standard {
                    for (out, (bias, factor)) in out.iter_mut().zip(bias.iter().zip(factor)) {
                        *out = (*out - bias) * factor;
                    }
                }
            }
        },
    );
}

/// The rows of a token's patches, row by row of its square.
fn rows(square: Square, token: usize) -> impl Iterator<Item = usize> {
    let side = square.side;
    (0..side * side).map(move |patch| square.row(token, (patch / side, patch % side)))
}
