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
            arch.dispatch(Norm { x, weight, epsilon });
        }
    });
}

/// Norms one row in place.
pub(super) struct Norm<'a> {
    pub(super) x: &'a mut [f32],
    pub(super) weight: &'a [f32],
    pub(super) epsilon: f32,
}

impl WithSimd for Norm<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        #[allow(clippy::cast_precision_loss)] // widths are far below 2^24
        let mean = dot(simd, self.x, self.x) / self.x.len() as f32;
        let scale = 1.0 / (mean + self.epsilon).sqrt();
        for (x, weight) in self.x.iter_mut().zip(self.weight) {
            *x = *x * scale * weight;
        }
    }
}
