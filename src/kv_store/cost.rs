//! What it takes to have positions again, by what has been measured: the disk, or the model.

use std::time::{Duration, Instant};

use crate::kv::Family;

/// A measure that is older says nothing of now: a disk that was busy then would never be asked again.
const FRESH: Duration = Duration::from_secs(600);
/// How much the newest measure counts.
const NEWEST: f64 = 0.5;

/// Positions of the first depth; each of the next ones has twice as many as the one before it.
const SHALLOW: usize = 512;
const DEPTHS: usize = 12;

/// Seconds that a position of a prompt takes, by how deep it lies: attention looks back at all before it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Depths([Option<Each>; DEPTHS]);

/// What each took of so many that were read at once: of more each takes less, so few say little of many.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Each {
    rows: f64,
    took: f64,
}

impl Depths {
    /// So many positions from `first` on, which were read at once, took so long.
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

    /// What a position takes: as far as is known, and else as one that is less deep, or the least deep.
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

/// Seconds that a position takes to be read again, by what makes it; `None` where nobody knows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    pub read: Depths,
    pub said: Option<f64>,
}

impl Cost {
    /// Of positions from `first` on.
    fn of(&self, first: usize, families: impl Iterator<Item = Family>) -> Option<f64> {
        let mut all = (first..).zip(families).map(|(at, family)| match family {
            Family::Prompt => self.read.of(at),
            Family::Step => self.said,
        });
        all.try_fold(0.0, |sum, one| Some(sum + one?))
    }
}

/// How fast the disk reads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rate {
    /// Bytes a second, and when that was measured.
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

    /// Bytes a second, where that is known.
    pub(super) fn fresh(&self) -> Option<f64> {
        let (rate, at) = self.measured?;
        (at.elapsed() < FRESH).then_some(rate)
    }

    /// Whether reading so many bytes is faster than having the model read the positions from `first` on again; what nobody knows
    /// yet is found out by doing it.
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
    fn what_is_measured_to_be_cheaper_is_chosen() {
        let families = || [Family::Prompt, Family::Prompt, Family::Step].into_iter();
        let cost = |read: f64, said| {
            let mut cost = Cost {
                said,
                ..Cost::default()
            };
            cost.read.measure(0, 1, Duration::from_secs_f64(read));
            cost
        };
        // Ten seconds by the model.
        let known = cost(1.0, Some(8.0));
        let mut rate = Rate::default();
        assert!(
            rate.pays(1 << 40, &known, 0, families()),
            "nobody knows the disk"
        );
        rate.measure(1000, Duration::from_secs(1));
        assert!(rate.pays(9_999, &known, 0, families()));
        assert!(!rate.pays(10_001, &known, 0, families()));
        // Of the prompt alone.
        assert!(!rate.pays(2_001, &known, 0, families().take(2)));
        assert!(rate.pays(1_999, &cost(1.0, None), 0, families().take(2)));
        assert!(
            rate.pays(1 << 40, &cost(1.0, None), 0, families()),
            "nobody knows what steps take"
        );
        // The newest measure counts most, and not alone.
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
    fn what_lies_deep_costs_more_once_that_is_known() {
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
        // From there on all of them are deep.
        assert_eq!(cost.of(7680, prompt()), Some(64_000.0));
        // Few say little of many, and many all.
        depths.measure(0, 1, Duration::from_secs(3));
        assert_eq!(depths.of(0), Some(1.1));
        depths.measure(0, 20, Duration::from_secs(10));
        assert_eq!(depths.of(0), Some(0.5));
    }
}
