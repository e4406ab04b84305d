//! The durations of steps, in histograms of a fixed size, so that a daemon can run for months.

use std::time::Duration;

use hdrhistogram::Histogram;

/// The longest duration that is counted exactly, in nanoseconds: a minute.
const MOST: u64 = 60_000_000_000;
/// Significant digits of each value.
const PRECISION: u8 = 2;

/// The durations of the steps of generations.
#[derive(Clone, Debug)]
pub struct Timing {
    /// The time from one token to the next.
    step: Histogram<u64>,
    /// The part of it in which the device was idle.
    gap: Histogram<u64>,
    /// The part of it in which the engine's thread worked.
    host: Histogram<u64>,
}

/// Percentiles of durations, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Percentiles {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub max: f64,
}

impl Default for Timing {
    fn default() -> Self {
        let empty = || match Histogram::new_with_bounds(1, MOST, PRECISION) {
            Ok(empty) => empty,
            Err(_) => unreachable!("the bounds are right"),
        };
        Self {
            step: empty(),
            gap: empty(),
            host: empty(),
        }
    }
}

impl Timing {
    pub fn record(&mut self, step: Duration, gap: Duration, host: Duration) {
        for (histogram, time) in [
            (&mut self.step, step),
            (&mut self.gap, gap),
            (&mut self.host, host),
        ] {
            histogram.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(MOST).min(MOST));
        }
    }

    /// The number of steps recorded.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.step.len()
    }

    /// Returns the percentiles by name, in the order step, gap, host.
    #[must_use]
    pub fn percentiles(&self) -> [(&'static str, Percentiles); 3] {
        [
            ("step", &self.step),
            ("gap", &self.gap),
            ("host", &self.host),
        ]
        .map(|(name, histogram)| (name, Percentiles::of(histogram)))
    }
}

impl Percentiles {
    fn of(histogram: &Histogram<u64>) -> Self {
        #[allow(clippy::cast_precision_loss)] // at most a minute
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        Self {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: at(1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_describe_the_recorded_durations() {
        let mut timing = Timing::default();
        for milliseconds in 1..=100 {
            let step = Duration::from_millis(milliseconds);
            timing.record(step, Duration::ZERO, step / 10);
        }
        timing.record(Duration::from_secs(3600), Duration::ZERO, Duration::ZERO);
        let [(_, step), (_, gap), (_, host)] = timing.percentiles();
        let near = |value: f64, exact: f64| (value - exact).abs() <= exact / 50.0;
        assert!(near(step.p50, 51e3) && near(step.p99, 100e3), "{step:?}");
        assert!(near(step.max, 60e6), "an hour counts as a minute: {step:?}");
        assert!(gap.max < 1.0 && near(host.p90, 9.1e3), "{gap:?} {host:?}");
        assert_eq!(timing.steps(), 101);
    }
}
