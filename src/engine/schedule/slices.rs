//! How many rows of a prompt are prefilled between two steps, and when steps are due, from measured costs.
//!
//! The engine thread waits for the end of each slice, or until it is preempted, so each slice is a measurement.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::kv_store::{Cost, Depths};

/// The fewest rows that are worth a slice.
const LEAST: usize = 16;
/// The fewest rows whose cost says something about many.
const MANY: usize = 4 * LEAST;
/// The weight of the newest measurement in the mean.
const NEWEST: f64 = 0.3;

/// The time that prefills may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The longest time of one slice.
    pub slice: Duration,
    /// The percentage of the time that prefills get while answers wait, from 1 to 100.
    pub percent: u32,
}

impl Default for Share {
    fn default() -> Self {
        Self {
            slice: Duration::from_millis(20),
            percent: 50,
        }
    }
}

/// Measured costs, in seconds, and the time that steps are due.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slices {
    /// The time of a slice by its number of rows, a power of two. Rows share a part of the time, so the cost of a few says
    /// little about many.
    takes: BTreeMap<usize, f64>,
    /// The time of a position, by its depth.
    depths: Depths,
    step: Option<f64>,
    /// The step time that the prefills of these users owe. Steps pay for the first of them first.
    owed: VecDeque<(u32, f64)>,
    /// The time of the slices since the last step that ran although steps were due.
    passed: f64,
}

impl Slices {
    /// Returns the rows of the next slice of a prompt, at most `chunk`.
    pub(crate) fn rows(&self, share: Share, chunk: usize) -> usize {
        let least = LEAST.min(chunk);
        let parts = std::iter::successors(Some(chunk), |rows| Some(rows / 2));
        let mut parts = parts.take_while(|rows| *rows >= least);
        let fits = |rows: &usize| {
            let takes = self.expected(*rows);
            takes.map_or(*rows <= MANY, |takes| takes <= share.slice.as_secs_f64())
        };
        parts.find(fits).unwrap_or(least)
    }

    /// Returns the time that `rows` should take, from the nearest measurement.
    fn expected(&self, rows: usize) -> Option<f64> {
        let rows = rows.next_power_of_two();
        let mut fewer = self.takes.range(..=rows);
        let nearest = fewer.next_back();
        let (of, takes) = nearest.or_else(|| self.takes.range(rows..).next())?;
        Some(takes * ratio(rows, *of))
    }

    /// Whether prefills have had their share of the time, so that steps are due.
    pub(crate) fn are_steps_due(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Whether a prefill may run although steps are due. It may if other users' prompts owe the steps, and if the rest of the
    /// prompt fits a slice. All such prefills before the next step together take no longer than one slice.
    pub(crate) fn passes(&self, share: Share, chunk: usize, user: u32, remaining: usize) -> bool {
        let takes = self.expected(remaining).unwrap_or_default();
        self.passed + takes <= share.slice.as_secs_f64()
            && self.owed.iter().all(|(owing, _)| *owing != user)
            && remaining <= self.rows(share, chunk)
    }

    /// Returns the expected state after another step.
    pub(crate) fn after_step(&self) -> Self {
        let mut after = self.clone();
        after.stepped(Duration::from_secs_f64(self.step.unwrap_or_default()));
        after
    }

    /// Returns the time to compute a position again, as far as it is known. Steps repeat `rows` generated tokens at once.
    pub(crate) fn cost(&self, rows: usize) -> Cost {
        #[allow(clippy::cast_precision_loss)] // rows are few
        let said = self.step.map(|step| step / rows.max(1) as f64);
        Cost {
            read: self.depths,
            said,
        }
    }

    /// Adds the measurement of a slice of `rows` rows from position `first`. A full slice would have had `slice` rows; the
    /// shorter last slice of a prompt says little about depth. More rows take no less time in all, and no more time each, which
    /// bounds the older measurements of other numbers of rows.
    pub(crate) fn prefilled(&mut self, first: usize, rows: usize, slice: usize, took: Duration) {
        if rows >= slice.min(MANY) {
            self.depths.measure(first, rows, took);
        }
        let rows = rows.next_power_of_two();
        let takes = mean(self.takes.get(&rows).copied(), took.as_secs_f64());
        self.takes.insert(rows, takes);
        for (other, known) in &mut self.takes {
            let each = takes * ratio(*other, rows);
            *known = known.clamp(each.min(takes), each.max(takes));
        }
    }

    /// Adds the measurement of a step, which pays for steps that are due.
    pub(crate) fn stepped(&mut self, took: Duration) {
        self.passed = 0.0;
        let mut took = took.as_secs_f64();
        self.step = Some(mean(self.step, took));
        while let Some((_, owed)) = self.owed.front_mut() {
            if *owed > took {
                *owed -= took;
                break;
            }
            took -= *owed;
            self.owed.pop_front();
        }
    }

    /// Makes steps due for the prefill of a user, if answers waited for it (`decoding`).
    pub(crate) fn owe_steps(&mut self, share: Share, user: u32, took: Duration, decoding: bool) {
        let due = due(share, took);
        if self.are_steps_due() {
            self.passed += took.as_secs_f64();
        }
        if !decoding {
            self.owed.clear();
        } else if let Some((_, owed)) = self.owed.iter_mut().find(|(owing, _)| *owing == user) {
            *owed += due;
        } else if due > 0.0 {
            self.owed.push_back((user, due));
        }
    }
}

/// Returns the step time that a prefill owes.
fn due(share: Share, took: Duration) -> f64 {
    let percent = f64::from(share.percent.clamp(1, 100));
    took.as_secs_f64() * (100.0 - percent) / percent
}

#[allow(clippy::cast_precision_loss)] // rows are few
fn ratio(rows: usize, of: usize) -> f64 {
    rows as f64 / of as f64
}

fn mean(before: Option<f64>, newest: f64) -> f64 {
    before.map_or(newest, |before| before + NEWEST * (newest - before))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share() -> Share {
        Share::default()
    }

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn slices_follow_from_what_rows_cost_and_shrink_with_depth() {
        let mut slices = Slices::default();
        assert_eq!(slices.rows(share(), 512), 64, "nothing is known yet");
        let mut last = usize::MAX;
        for row_us in [20, 100, 500, 4000] {
            for decoding in [true, false].into_iter().cycle().take(30) {
                let rows = slices.rows(share(), 512);
                let takes = Duration::from_micros(row_us * rows as u64);
                slices.prefilled(0, rows, rows, takes);
                slices.owe_steps(share(), 1, takes, decoding);
                slices.stepped(ms(4));
            }
            let rows = slices.rows(share(), 512);
            assert!(rows < last || rows == LEAST, "{rows} after {last}");
            let fits = 20_000 / row_us;
            assert!(rows as u64 <= fits.max(LEAST as u64) && rows as u64 * 2 > fits.min(511));
            last = rows;
        }
    }

    /// A prompt whose prefix is in the cache is one row, which takes as long as sixteen.
    #[test]
    fn the_cost_of_few_rows_says_little_about_many() {
        let mut slices = Slices::default();
        let takes = |rows: usize| Duration::from_micros(3000 + 35 * rows as u64);
        let read = |slices: &mut Slices, rows| {
            slices.prefilled(0, rows, slices.rows(share(), 512), takes(rows));
            slices.rows(share(), 512)
        };
        assert_eq!(read(&mut slices, 1), LEAST);
        assert_eq!(read(&mut slices, LEAST), 64);
        assert_eq!(read(&mut slices, 64), 128);
        assert_eq!(read(&mut slices, 128), 256);
        (0..9).for_each(|_| assert_eq!(read(&mut slices, 1), 256));
        let mut known = Depths::default();
        known.measure(0, 1, Duration::from_micros(60));
        assert!(slices.cost(8).read.of(0) < known.of(0), "s a position");
        // Where slices are small, a small one is a good measurement.
        let mut slow = Slices::default();
        slow.prefilled(0, LEAST, LEAST, ms(32));
        slow.prefilled(0, 1, LEAST, ms(30));
        assert_eq!(slow.cost(8).read.of(0), Some(2e-3));
        // An outlier is forgotten.
        slices.prefilled(0, 256, 512, ms(90));
        assert!(slices.rows(share(), 512) < 256);
        for _ in 0..9 {
            read(&mut slices, 128);
        }
        assert_eq!(slices.rows(share(), 512), 256);
    }

    #[test]
    fn prefills_have_their_share_of_the_time() {
        for (percent, steps) in [(50, 5), (20, 20), (100, 0)] {
            let share = Share { percent, ..share() };
            let mut slices = Slices::default();
            slices.stepped(ms(4));
            slices.owe_steps(share, 1, ms(20), true);
            let mut due = 0;
            while slices.are_steps_due() {
                slices.stepped(ms(4));
                due += 1;
            }
            assert_eq!(due, steps, "{percent} %");
        }
        let mut slices = Slices::default();
        slices.owe_steps(share(), 1, ms(20), false);
        assert!(!slices.are_steps_due(), "no answer waited");
    }

    /// A short prompt does not wait for steps that another user owes, until all of them have had a slice.
    #[test]
    fn users_do_not_pay_for_the_prefills_of_others() {
        let mut slices = Slices::default();
        slices.prefilled(0, 100, 512, ms(10));
        slices.owe_steps(share(), 1, ms(15), true);
        let passes =
            |slices: &Slices, user, remaining| slices.passes(share(), 512, user, remaining);
        assert!(passes(&slices, 2, 30) && !passes(&slices, 1, 30));
        assert!(!passes(&slices, 2, 300), "it is long");
        slices.owe_steps(share(), 2, ms(10), true);
        assert!(passes(&slices, 3, 30) && !passes(&slices, 2, 30));
        slices.owe_steps(share(), 3, ms(8), true);
        assert!(
            !passes(&slices, 4, 30),
            "answers would wait for longer than a slice"
        );
        slices.stepped(Duration::ZERO);
        assert!(passes(&slices, 4, 30));
        // The first user that owed has paid first.
        slices.stepped(ms(15));
        assert!(passes(&slices, 1, 30) && !passes(&slices, 2, 30));
        (0..4).for_each(|_| slices.stepped(ms(5)));
        assert!(
            !slices.are_steps_due(),
            "33 ms of prefills were followed by 35 ms of steps"
        );
    }

    #[test]
    fn short_prompts_run_before_a_step_as_long_as_one_slice() {
        let mut slices = Slices::default();
        slices.prefilled(0, 32, 512, ms(3));
        slices.stepped(ms(2));
        slices.owe_steps(share(), 0, ms(3), true);
        let together = (1..20).take_while(|user| {
            let passes = slices.passes(share(), 512, *user, 30);
            if passes {
                slices.owe_steps(share(), *user, ms(3), true);
            }
            passes
        });
        assert_eq!(together.count(), 6, "of 3 ms each");
        // The expected state does not change the real one.
        assert!(slices.after_step().passes(share(), 512, 20, 30));
        assert!(!slices.passes(share(), 512, 20, 30));
    }
}
