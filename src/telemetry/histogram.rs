//! A histogram of durations that many threads fill at once without a lock. Its size is fixed.
//!
//! Its buckets suit exports, which need the same bounds for months. Percentiles are in `timing`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper bounds of the buckets, in microseconds: 1 ms to 60 s.
const BOUNDS: [u64; 20] = [
    1_000, 2_000, 3_000, 5_000, 10_000, 20_000, 30_000, 50_000, 100_000, 200_000, 300_000, 500_000,
    1_000_000, 2_000_000, 3_000_000, 5_000_000, 10_000_000, 20_000_000, 30_000_000, 60_000_000,
];
/// One bucket more than bounds: durations above the last bound.
const BUCKETS: usize = BOUNDS.len() + 1;

/// Counts durations by size. Recording costs two atomic additions.
#[derive(Debug)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    /// The sum of all durations, in microseconds.
    sum: AtomicU64,
}

/// The content of a histogram at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// The upper bound of each bucket, in seconds, and the number of durations up to it. Durations above the last bound
    /// are in `count` only.
    pub up_to: Vec<(f64, u64)>,
    /// The number of all durations.
    pub count: u64,
    /// The sum of all durations, in seconds.
    pub sum: f64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
            sum: AtomicU64::new(0),
        }
    }
}

impl Histogram {
    pub fn record(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let at = BOUNDS.partition_point(|bound| *bound < micros);
        self.buckets[at].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(micros, Ordering::Relaxed);
    }

    /// Returns the content. A duration that is recorded at the same time may be in the count and not yet in the sum.
    #[must_use]
    pub fn read(&self) -> Distribution {
        let mut count = 0;
        let mut counts = self.buckets.iter().map(|bucket| {
            count += bucket.load(Ordering::Relaxed);
            count
        });
        let bounds = BOUNDS.map(seconds);
        let up_to = bounds.into_iter().zip(counts.by_ref()).collect();
        counts.for_each(drop);
        Distribution {
            up_to,
            count,
            sum: seconds(self.sum.load(Ordering::Relaxed)),
        }
    }
}

/// Returns a number of microseconds in seconds.
#[allow(clippy::cast_precision_loss)] // exact for 285 years
pub(super) fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative_and_include_their_bound() {
        let histogram = Histogram::default();
        for micros in [0, 1_000, 1_001, 60_000_000, 60_000_001, 3_600_000_000] {
            histogram.record(Duration::from_micros(micros));
        }
        let read = histogram.read();
        assert_eq!(read.up_to.len(), BOUNDS.len());
        assert_eq!(read.up_to[0], (0.001, 2));
        assert_eq!(read.up_to[1], (0.002, 3));
        assert_eq!(read.up_to[BOUNDS.len() - 1], (60.0, 4));
        assert_eq!(read.count, 6);
        assert!((read.sum - 3_720.002_002).abs() < 1e-9, "{}", read.sum);
    }

    #[test]
    fn threads_that_record_at_once_lose_nothing() {
        let histogram = Histogram::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    (0..1000).for_each(|_| histogram.record(Duration::from_millis(4)));
                });
            }
        });
        let read = histogram.read();
        assert_eq!((read.count, read.up_to[3]), (4000, (0.005, 4000)));
        assert!((read.sum - 16.0).abs() < 1e-9, "{}", read.sum);
    }
}
