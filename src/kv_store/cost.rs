//! Compares the cost of restoring positions from the disk and of prefilling them again, from measurements.

use std::time::{Duration, Instant};

use crate::kv::Family;

/// Older measurements are ignored. Otherwise a disk that was once busy would never be used again.
const FRESH: Duration = Duration::from_secs(600);
/// The weight of the newest measurement.
const NEWEST: f64 = 0.5;

/// Positions of the first depth. Each further depth has twice as many as the last one.
const SHALLOW: usize = 512;
const DEPTHS: usize = 12;

/// Seconds for prefilling a position at each depth. Attention reads all earlier positions, so deeper ones take longer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Depths([Option<Each>; DEPTHS]);

/// Seconds for a position, and the rows that were measured together. Larger runs need less for each row, so a small one
/// says little about them.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Each {
    rows: f64,
    took: f64,
}

impl Depths {
    /// Adds a measurement of `rows` positions from `first` on.
    pub fn measure(&mut self, first: usize, rows: usize, took: Duration) {
        #[allow(clippy::cast_precision_loss)] // rows are few
        let rows = rows.max(1) as f64;
        let took = took.as_secs_f64() / rows;
        let known = self.0[depth(first)].get_or_insert(Each { rows, took });
        if rows > known.rows {
            *known = Each { rows, took };
        } else {
            known.took += NEWEST * rows / known.rows * (took - known.took);
        }
    }

    /// Seconds for a position. An unknown depth has the value of the next shallower or of the shallowest known one.
    #[must_use]
    pub fn of(&self, position: usize) -> Option<f64> {
        let (before, after) = self.0.split_at(depth(position) + 1);
        let nearest = before.iter().rev().chain(after);
        nearest.flatten().next().map(|each| each.took)
    }
}

fn depth(position: usize) -> usize {
    let depth = (position / SHALLOW + 1).ilog2() as usize;
    depth.min(DEPTHS - 1)
}

/// Seconds for computing a position again in each family; `None` if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    pub read: Depths,
    pub said: Option<f64>,
}

impl Cost {
    /// Seconds for positions from `first` on.
    fn of(&self, first: usize, families: impl Iterator<Item = Family>) -> Option<f64> {
        let mut all = (first..).zip(families).map(|(at, family)| match family {
            Family::Prompt => self.read.of(at),
            Family::Step => self.said,
        });
        all.try_fold(0.0, |sum, one| Some(sum + one?))
    }
}

/// The measured speed of reading.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rate {
    /// Bytes per second, and the time of the measurement.
    measured: Option<(f64, Instant)>,
}

impl Rate {
    pub(super) fn measure(&mut self, bytes: u64, took: Duration) {
        #[allow(clippy::cast_precision_loss)] // a rate is no exact number
        let rate = bytes as f64 / took.as_secs_f64().max(1e-9);
        let before = self.fresh();
        let rate = before.map_or(rate, |before| before + NEWEST * (rate - before));
        self.measured = Some((rate, Instant::now()));
    }

    /// Bytes per second, if the measurement is recent.
    pub(super) fn fresh(&self) -> Option<f64> {
        let (rate, at) = self.measured?;
        (at.elapsed() < FRESH).then_some(rate)
    }

    /// Whether reading bytes from the disk is faster than computing the positions from `first` on again. Without
    /// measurements the answer is yes, which provides one.
    pub(super) fn pays(
        &self,
        bytes: u64,
        again: &Cost,
        first: usize,
        families: impl Iterator<Item = Family>,
    ) -> bool {
        #[allow(clippy::cast_precision_loss)] // as above
        let disk = self.fresh().map(|rate| bytes as f64 / rate);
        match (disk, again.of(first, families)) {
            (Some(disk), Some(again)) => disk < again,
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheaper_way_by_measurement_is_chosen() {
        let families = || [Family::Prompt, Family::Prompt, Family::Step].into_iter();
        let cost = |read: f64, said| {
            let mut cost = Cost {
                said,
                ..Cost::default()
            };
            cost.read.measure(0, 1, Duration::from_secs_f64(read));
            cost
        };
        // Ten seconds on the model.
        let known = cost(1.0, Some(8.0));
        let mut rate = Rate::default();
        assert!(
            rate.pays(1 << 40, &known, 0, families()),
            "the speed of the disk is unknown"
        );
        rate.measure(1000, Duration::from_secs(1));
        assert!(rate.pays(9_999, &known, 0, families()));
        assert!(!rate.pays(10_001, &known, 0, families()));
        // The cost of the prompt alone.
        assert!(!rate.pays(2_001, &known, 0, families().take(2)));
        assert!(rate.pays(1_999, &cost(1.0, None), 0, families().take(2)));
        assert!(
            rate.pays(1 << 40, &cost(1.0, None), 0, families()),
            "the time of steps is unknown"
        );
        // The newest measurement counts most, but not alone.
        rate.measure(2000, Duration::from_secs(1));
        assert_eq!(rate.fresh(), Some(1500.0));
        rate.measured = rate
            .measured
            .and_then(|(rate, at)| Some((rate, at.checked_sub(FRESH)?)));
        assert!(
            rate.pays(1 << 40, &known, 0, families()),
            "that was long ago"
        );
    }
    #[test]
    fn deeper_positions_cost_more_once_measured() {
        let mut depths = Depths::default();
        assert_eq!(depths.of(0), None);
        depths.measure(9000, 10, Duration::from_secs(40));
        assert_eq!(depths.of(0), Some(4.0), "nothing else is known");
        depths.measure(0, 10, Duration::from_secs(10));
        let all = [0, 511, 512, 7679, 7680, 15_000, 1 << 40];
        let each = all.map(|position| depths.of(position));
        assert_eq!(each, [1.0, 1.0, 1.0, 1.0, 4.0, 4.0, 4.0].map(Some));
        let cost = Cost {
            read: depths,
            said: None,
        };
        let prompt = || std::iter::repeat_n(Family::Prompt, 16_000);
        let took = cost.of(0, prompt()).expect("it is known");
        assert!((took - (7680.0 + 4.0 * (16_000.0 - 7680.0))).abs() < 1e-6);
        // All further positions are deep.
        assert_eq!(cost.of(7680, prompt()), Some(64_000.0));
        // A small measurement changes little, and a large one much.
        depths.measure(0, 1, Duration::from_secs(3));
        assert_eq!(depths.of(0), Some(1.1));
        depths.measure(0, 20, Duration::from_secs(10));
        assert_eq!(depths.of(0), Some(0.5));
    }
}
