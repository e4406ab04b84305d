//! RMS norm (Zhang and Sennrich 2019).

/// `out = x / sqrt(mean(x^2) + epsilon) * weight`, row by row; a row is as long as `weight`.
pub(super) fn rms_norm(x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
    let columns = weight.len();
    for (x, out) in x.chunks_exact(columns).zip(out.chunks_exact_mut(columns)) {
        let scale = scale(x, epsilon);
        for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
            *out = x * scale * weight;
        }
    }
}

/// The same, in place, for one row.
pub(super) fn rms_norm_in_place(x: &mut [f32], weight: &[f32], epsilon: f32) {
    let scale = scale(x, epsilon);
    for (x, weight) in x.iter_mut().zip(weight) {
        *x = *x * scale * weight;
    }
}

#[allow(clippy::cast_precision_loss)] // widths are far below 2^24
fn scale(x: &[f32], epsilon: f32) -> f32 {
    let mean = super::matmul::dot(x, x) / x.len() as f32;
    1.0 / (mean + epsilon).sqrt()
}
