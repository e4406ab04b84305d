//! Estimates how long requests still wait, from the duration of earlier requests and from the active holds.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// How long a request still waits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WaitEstimate {
    /// The requests before it, plus one while a hold keeps it off the device.
    pub before: u32,
    /// The estimated seconds; 0 if nothing was measured yet.
    pub seconds: f64,
}

impl WaitEstimate {
    /// Adds a hold, which keeps the request off the device for at most `left`.
    pub(crate) fn held(self, left: Option<Duration>) -> Self {
        let Some(left) = left else {
            return self;
        };
        Self {
            before: self.before.saturating_add(1),
            seconds: self.seconds + left.as_secs_f64(),
        }
    }
}

/// The duration of requests.
#[derive(Debug, Default)]
pub(crate) struct RequestTimes {
    mean_us: AtomicU64,
    at_once: AtomicU32,
}

impl RequestTimes {
    /// Adds the duration of a request, of which `at_once` were active. Called by the engine thread alone.
    pub(crate) fn took(&self, time: Duration, at_once: usize) {
        let newest = u64::try_from(time.as_micros())
            .unwrap_or(u64::MAX >> 2)
            .min(u64::MAX >> 2);
        let before = self.mean_us.load(Ordering::Relaxed);
        let mean = if before == 0 {
            newest
        } else {
            (3 * before.min(u64::MAX >> 3) + newest) / 4
        };
        self.mean_us.store(mean, Ordering::Relaxed);
        let at_once = u32::try_from(at_once.max(1)).unwrap_or(u32::MAX);
        self.at_once.store(at_once, Ordering::Relaxed);
    }

    /// Estimates the wait of a request with `before` requests before it.
    pub(crate) fn estimate(&self, before: usize) -> WaitEstimate {
        WaitEstimate {
            before: u32::try_from(before).unwrap_or(u32::MAX),
            seconds: self.seconds(before),
        }
    }

    /// Returns the seconds until one more than `before` requests have ended.
    #[allow(clippy::cast_precision_loss)] // for people
    fn seconds(&self, before: usize) -> f64 {
        let at_once = f64::from(self.at_once.load(Ordering::Relaxed).max(1));
        let each = self.mean_us.load(Ordering::Relaxed) as f64 / 1e6;
        each * (before + 1) as f64 / at_once
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_follows_from_how_long_turns_took_and_how_many_run() {
        let request_times = RequestTimes::default();
        assert!(request_times.seconds(3) < f64::EPSILON, "nothing is known");
        request_times.took(Duration::from_secs(8), 1);
        assert!(
            (request_times.seconds(0) - 8.0).abs() < 1e-3
                && (request_times.seconds(2) - 24.0).abs() < 1e-3
        );
        request_times.took(Duration::from_secs(8), 4);
        assert!((request_times.seconds(2) - 6.0).abs() < 1e-3);
        request_times.took(Duration::MAX, usize::MAX);
    }

    #[test]
    fn a_hold_counts_as_one_more_and_with_the_most_that_it_can_last() {
        let waits = WaitEstimate {
            before: 2,
            seconds: 6.0,
        };
        assert_eq!(waits.held(None), waits);
        let held = waits.held(Some(Duration::from_secs(90)));
        assert_eq!((held.before, held.seconds), (3, 96.0));
    }
}
