//! How many rows of a prompt are read between two steps, and how much of the time prompts have had: from what rows and steps
//! have cost so far. Whoever reads a slice waits for its end, or until it is left, so each tells its cost.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::kv_store::{Cost, Depths};

/// The fewest rows that are worth a slice.
const LEAST: usize = 16;
/// The fewest that say anything of what many take.
const MANY: usize = 4 * LEAST;
/// How much the newest measure counts.
const NEWEST: f64 = 0.3;

/// What reading may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// One slice takes no longer than this.
    pub slice: Duration,
    /// Prompts take so much of the time while answers wait, in percent: from 1 to 100.
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

/// What has been measured. In seconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slices {
    /// So many rows took so long; the numbers of rows are powers of two. Reading takes time that rows share, so a few say
    /// little of many.
    takes: BTreeMap<usize, f64>,
    /// The same of a position, by how deep it lies.
    depths: Depths,
    step: Option<f64>,
    /// Steps are due for the prompts of these users, for so long each; they are for the first of them first.
    owed: VecDeque<(u32, f64)>,
    /// What slices took that did not wait for these since the last step.
    passed: f64,
}

impl Slices {
    /// Rows of the next slice of a prompt: a part of `chunk`, the most that may be read at once.
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

    /// What so many rows should take: as they did, or by what fewer did, or by what more did.
    fn expected(&self, rows: usize) -> Option<f64> {
        let rows = rows.next_power_of_two();
        let mut fewer = self.takes.range(..=rows);
        let nearest = fewer.next_back();
        let (of, takes) = nearest.or_else(|| self.takes.range(rows..).next())?;
        Some(takes * ratio(rows, *of))
    }

    /// Whether prompts have had their share for now.
    pub(crate) fn owed(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Whether a user's prompt, of which so much is unread, need not wait for steps that are due: they are so for others'
    /// prompts, and it ends with the next slice. Answers wait for it then, but for no longer than for one slice with all that
    /// passes before the next step: of those who come together nobody begins late, and the steps are of all of them.
    pub(crate) fn passes(&self, share: Share, chunk: usize, user: u32, unread: usize) -> bool {
        let takes = self.expected(unread).unwrap_or_default();
        self.passed + takes <= share.slice.as_secs_f64()
            && self.owed.iter().all(|(owing, _)| *owing != user)
            && unread <= self.rows(share, chunk)
    }

    /// The same after another step, as far as it can be foreseen.
    pub(crate) fn after_step(&self) -> Self {
        let mut after = self.clone();
        after.stepped(Duration::from_secs_f64(self.step.unwrap_or_default()));
        after
    }

    /// What a position takes to be read again, where it is known; steps of tokens that were said run so many at once.
    pub(crate) fn cost(&self, rows: usize) -> Cost {
        #[allow(clippy::cast_precision_loss)] // rows are few
        let said = self.step.map(|step| step / rows.max(1) as f64);
        Cost {
            read: self.depths,
            said,
        }
    }

    /// A slice has ended: so many rows from `first` on were read, which took so long. More rows take no less time, and no more for
    /// each; so this also says what others of before are worth now. Of `slice` rows a whole one would have been: what is read again
    /// is read in such, which may be few, so that the end of a prompt says little of it.
    pub(crate) fn read(&mut self, first: usize, rows: usize, slice: usize, took: Duration) {
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

    /// Tokens have come by a step that took so long.
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

    /// A user's prompt has had so much of the time; `others` says that answers waited meanwhile, which have as much as their
    /// share of it is.
    pub(crate) fn owe(&mut self, share: Share, user: u32, took: Duration, others: bool) {
        let due = due(share, took);
        if self.owed() {
            self.passed += took.as_secs_f64();
        }
        if !others {
            self.owed.clear();
        } else if let Some((_, owed)) = self.owed.iter_mut().find(|(owing, _)| *owing == user) {
            *owed += due;
        } else if due > 0.0 {
            self.owed.push_back((user, due));
        }
    }
}

/// How long steps are due after so much of reading.
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
            for others in [true, false].into_iter().cycle().take(30) {
                let rows = slices.rows(share(), 512);
                let takes = Duration::from_micros(row_us * rows as u64);
                slices.read(0, rows, rows, takes);
                slices.owe(share(), 1, takes, others);
                slices.stepped(ms(4));
            }
            let rows = slices.rows(share(), 512);
            assert!(rows < last || rows == LEAST, "{rows} after {last}");
            let fits = 20_000 / row_us;
            assert!(rows as u64 <= fits.max(LEAST as u64) && rows as u64 * 2 > fits.min(511));
            last = rows;
        }
    }

    /// A question whose beginning is held is one row, which takes as long as sixteen.
    #[test]
    fn what_few_rows_cost_says_little_of_many() {
        let mut slices = Slices::default();
        let takes = |rows: usize| Duration::from_micros(3000 + 35 * rows as u64);
        let read = |slices: &mut Slices, rows| {
            slices.read(0, rows, slices.rows(share(), 512), takes(rows));
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
        // Where slices are small, a small one says what it takes.
        let mut slow = Slices::default();
        slow.read(0, LEAST, LEAST, ms(32));
        slow.read(0, 1, LEAST, ms(30));
        assert_eq!(slow.cost(8).read.of(0), Some(2e-3));
        // One that took long for another reason is not remembered for ever.
        slices.read(0, 256, 512, ms(90));
        assert!(slices.rows(share(), 512) < 256);
        for _ in 0..9 {
            read(&mut slices, 128);
        }
        assert_eq!(slices.rows(share(), 512), 256);
    }

    #[test]
    fn prompts_have_their_share_of_the_time() {
        for (percent, steps) in [(50, 5), (20, 20), (100, 0)] {
            let share = Share { percent, ..share() };
            let mut slices = Slices::default();
            slices.stepped(ms(4));
            slices.owe(share, 1, ms(20), true);
            let mut due = 0;
            while slices.owed() {
                slices.stepped(ms(4));
                due += 1;
            }
            assert_eq!(due, steps, "{percent} %");
        }
        let mut slices = Slices::default();
        slices.owe(share(), 1, ms(20), false);
        assert!(!slices.owed(), "nobody waited");
    }

    /// What one user's prompt owes, another's short question does not wait for; all together have their share.
    #[test]
    fn nobody_pays_for_the_prompts_of_others() {
        let mut slices = Slices::default();
        slices.read(0, 100, 512, ms(10));
        slices.owe(share(), 1, ms(15), true);
        let passes = |slices: &Slices, user, unread| slices.passes(share(), 512, user, unread);
        assert!(passes(&slices, 2, 30) && !passes(&slices, 1, 30));
        assert!(!passes(&slices, 2, 300), "it is long");
        slices.owe(share(), 2, ms(10), true);
        assert!(passes(&slices, 3, 30) && !passes(&slices, 2, 30));
        slices.owe(share(), 3, ms(8), true);
        assert!(
            !passes(&slices, 4, 30),
            "answers would wait for longer than a slice"
        );
        slices.stepped(Duration::ZERO);
        assert!(passes(&slices, 4, 30));
        // The first who owes is the first who does no more.
        slices.stepped(ms(15));
        assert!(passes(&slices, 1, 30) && !passes(&slices, 2, 30));
        (0..4).for_each(|_| slices.stepped(ms(5)));
        assert!(!slices.owed(), "33 ms of prompts have had 35 of steps");
    }

    #[test]
    fn what_comes_together_begins_before_a_step_as_far_as_a_slice_lasts() {
        let mut slices = Slices::default();
        slices.read(0, 32, 512, ms(3));
        slices.stepped(ms(2));
        slices.owe(share(), 0, ms(3), true);
        let together = (1..20).take_while(|user| {
            let passes = slices.passes(share(), 512, *user, 30);
            if passes {
                slices.owe(share(), *user, ms(3), true);
            }
            passes
        });
        assert_eq!(together.count(), 6, "of 3 ms each");
        // What will be the case after a step is foreseen, and changes nothing.
        assert!(slices.after_step().passes(share(), 512, 20, 30));
        assert!(!slices.passes(share(), 512, 20, 30));
    }
}
