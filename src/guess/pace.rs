//! How fast a draft model reads: how many rows fit into a slice of time.

use std::time::Duration;

/// The rows that are read before anything is known.
const FIRST: usize = 16;
/// The weight of a new time in the average.
const NEW: f64 = 0.3;

/// The measured time of a row, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace(Option<f64>);

impl Pace {
    /// Adds the time of a number of rows.
    pub fn record(&mut self, rows: usize, took: Duration) {
        #[allow(clippy::cast_precision_loss)] // rows are few
        let each = took.as_secs_f64() / rows.max(1) as f64;
        self.0 = Some(self.0.map_or(each, |before| before + NEW * (each - before)));
    }

    /// Returns how many rows fit into a time, at least one.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // it is positive, and a cast saturates
    pub fn rows(&self, time: Duration) -> usize {
        let rows = self
            .0
            .map_or(FIRST, |each| (time.as_secs_f64() / each) as usize);
        rows.max(1)
    }

    /// Returns the time of a number of rows, in seconds; `None` before anything is known.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // rows are few
    pub fn time(&self, rows: usize) -> Option<f64> {
        self.0.map(|each| each * rows as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_has_the_rows_that_fit() {
        let mut pace = Pace::default();
        let slice = Duration::from_millis(20);
        assert_eq!((pace.rows(slice), pace.time(10)), (FIRST, None));
        pace.record(16, Duration::from_millis(16));
        assert!((19..=21).contains(&pace.rows(slice)), "{pace:?}");
        assert!(pace.time(10).is_some_and(|time| (time - 0.01).abs() < 1e-9));
        pace.record(1, Duration::from_secs(1));
        assert_eq!(pace.rows(slice), 1, "at least one");
    }
}
