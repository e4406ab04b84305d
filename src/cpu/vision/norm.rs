//! Norms of whole rows: layer norm and RMS norm, with optional weights and bias.

use pulp::{Simd, WithSimd};

use super::super::dots::dot;
use super::super::threads::{each, piece};
use crate::tape::NormKind;

/// Partial sums of a row, added in pairs.
const SUMS: usize = 16;

/// Norms each row of x: x and out are (rows, columns).
pub(super) fn norm(
    (kind, epsilon): (NormKind, f32),
    (weight, bias): (Option<&[f32]>, Option<&[f32]>),
    x: &[f32],
    columns: usize,
    out: &mut [f32],
) {
    let (piece, arch) = (piece(out.len(), columns), pulp::Arch::new());
    each(
        x.chunks(piece).zip(out.chunks_mut(piece)),
        |(x, out): (&[f32], &mut [f32])| {
            out.copy_from_slice(x);
            for row in out.chunks_exact_mut(columns) {
                arch.dispatch(Row {
                    kind,
                    epsilon,
                    weight,
                    bias,
                    values: row,
                });
            }
        },
    );
}

/// Norms one row in place.
struct Row<'a> {
    kind: NormKind,
    epsilon: f32,
    weight: Option<&'a [f32]>,
    bias: Option<&'a [f32]>,
    values: &'a mut [f32],
}

impl WithSimd for Row<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            kind,
            epsilon,
            weight,
            bias,
            values: row,
        } = self;
        #[allow(clippy::cast_precision_loss)] // widths are far below 2^24
        let count = row.len() as f32;
        if kind == NormKind::Layer {
            let mean = sum(row) / count;
            row.iter_mut().for_each(|x| *x -= mean);
        }
        let scale = 1.0 / (dot(simd, row, row) / count + epsilon).sqrt();
        row.iter_mut().for_each(|x| *x *= scale);
        if let Some(weight) = weight {
            row.iter_mut().zip(weight).for_each(|(x, by)| *x *= by);
        }
        if let Some(bias) = bias {
            row.iter_mut().zip(bias).for_each(|(x, by)| *x += by);
        }
    }
}

#[inline(always)]
fn sum(row: &[f32]) -> f32 {
    let (whole, rest) = row.as_chunks::<SUMS>();
    let mut parts = [0.0; SUMS];
    for values in whole {
        for (part, value) in parts.iter_mut().zip(values) {
            *part += value;
        }
    }
    for (part, value) in parts.iter_mut().zip(rest) {
        *part += value;
    }
    super::super::dots::sixteen_in_pairs(&parts)
}
