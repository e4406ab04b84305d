//! Medians and percentiles of a few hundred values, exactly.

/// The middle of `values`, 0 if there are none.
pub(super) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let values = sorted(values);
    let middle = values.len() / 2;
    match &values[..] {
        [] => 0.0,
        values if values.len().is_multiple_of(2) => {
            f64::midpoint(values[middle - 1], values[middle])
        }
        values => values[middle],
    }
}

/// The least of `values` that so many percent of them do not exceed, 0 if there are none.
pub(super) fn percentile(values: impl IntoIterator<Item = f64>, percent: usize) -> f64 {
    let values = sorted(values);
    let rank = (values.len() * percent).div_ceil(100);
    let value = values.get(rank.saturating_sub(1));
    value.copied().unwrap_or(0.0)
}

fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slow_step_of_a_hundred_is_above_the_99th_percentile_and_two_are_not() {
        let steps = |slow: u32| (0..100).map(move |n| if n < slow { 9.0 } else { 1.0 });
        assert_eq!(percentile(steps(1), 99).to_bits(), 1.0_f64.to_bits());
        assert_eq!(percentile(steps(2), 99).to_bits(), 9.0_f64.to_bits());
        assert_eq!(median([3.0, 1.0, 4.0, 2.0]).to_bits(), 2.5_f64.to_bits());
    }
}
