//! RMS norm (Zhang and Sennrich 2019).

use pulp::{Simd, WithSimd};

use super::dots::dot;
use super::threads::{each, piece};

/// Computes `out = x / sqrt(mean(x^2) + epsilon) * weight` for each row of `out`. A row is as long as `weight`.
pub(super) fn rms_norm(x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
    let columns = weight.len();
    let arch = pulp::Arch::new();
    let (piece, x) = (piece(out.len(), columns), &x[..out.len()]);
    each(x.chunks(piece).zip(out.chunks_mut(piece)), |(x, out)| {
        out.copy_from_slice(x);
        for x in out.chunks_exact_mut(columns) {
            arch.dispatch(Norm {
                x,
                weight: Some(weight),
                epsilon,
            });
        }
    });
}

/// Norms each head in place, without weights.
pub(super) fn heads(rows: &mut [f32], (head_dim, epsilon): (usize, f32)) {
    let arch = pulp::Arch::new();
    for x in rows.chunks_exact_mut(head_dim) {
        arch.dispatch(Norm {
            x,
            weight: None,
            epsilon,
        });
    }
}

/// Norms one row in place.
pub(super) struct Norm<'a> {
    pub(super) x: &'a mut [f32],
    /// `None` means weights of 1.
    pub(super) weight: Option<&'a [f32]>,
    pub(super) epsilon: f32,
}

impl WithSimd for Norm<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        #[allow(clippy::cast_precision_loss)] // widths are far below 2^24
        let mean = dot(simd, self.x, self.x) / self.x.len() as f32;
        let scale = 1.0 / (mean + self.epsilon).sqrt();
        match self.weight {
            Some(weights) => {
                for (x, weight) in self.x.iter_mut().zip(weights) {
                    *x = *x * scale * weight;
                }
            }
            None => self.x.iter_mut().for_each(|x| *x *= scale),
        }
    }
}
