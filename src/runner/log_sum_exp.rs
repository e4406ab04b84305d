//! Normalizes logits: a log probability is a logit minus the logarithm of the sum of their exponentials.

/// Returns the logarithm of the sum of the exponentials of `logits`.
pub(crate) fn log_sum_exp(logits: &[f32]) -> f64 {
    let greatest = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    greatest
        + logits
            .iter()
            .map(|logit| (f64::from(*logit) - greatest).exp())
            .sum::<f64>()
            .ln()
}
