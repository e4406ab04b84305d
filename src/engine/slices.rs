//! How many rows of a prompt are read between two steps, and how much of the time prompts have had: from what rows and steps
//! have cost so far. Whoever reads a slice waits for its end, so each tells its cost.

use std::time::Duration;

use crate::kv_store::Cost;

/// The fewest rows that are worth a slice.
const LEAST: usize = 16;
/// How much the newest measure counts.
const NEWEST: f64 = 0.3;

/// What reading may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Of one slice.
    pub slice: Duration,
    /// Of the time while answers wait, in percent: from 1 to 100.
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
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slices {
    row: Option<f64>,
    step: Option<f64>,
    /// Steps are due for so long before the next slice.
    owed: f64,
}

impl Slices {
    /// Rows of the next slice of a prompt: a part of `chunk`, the most that may be read at once.
    pub(super) fn rows(&self, share: Share, chunk: usize) -> usize {
        let least = LEAST.min(chunk);
        let parts = std::iter::successors(Some(chunk), |rows| Some(rows / 2));
        let mut parts = parts.take_while(|rows| *rows >= least);
        let fits = |rows: &usize| {
            #[allow(clippy::cast_precision_loss)] // rows are few
            let takes = self.row.map(|row| row * *rows as f64);
            takes.map_or(*rows <= 4 * LEAST, |takes| {
                takes <= share.slice.as_secs_f64()
            })
        };
        parts.find(fits).unwrap_or(least)
    }

    /// Whether prompts have had their share for now.
    pub(super) fn owed(&self) -> bool {
        self.owed > 0.0
    }

    /// What a position takes to be read again, where it is known; steps of tokens that were said run so many at once.
    pub(super) fn cost(&self, rows: usize) -> Cost {
        #[allow(clippy::cast_precision_loss)] // rows are few
        let said = self.step.map(|step| step / rows.max(1) as f64);
        Cost {
            read: self.row,
            said,
        }
    }

    /// So many rows were read, which took so long. `others` says that answers waited meanwhile.
    pub(super) fn read(&mut self, share: Share, rows: usize, took: Duration, others: bool) {
        #[allow(clippy::cast_precision_loss)] // rows are few
        let row = took.as_secs_f64() / rows.max(1) as f64;
        self.row = Some(mean(self.row, row));
        if others {
            self.owe(share, took);
        } else {
            self.owed = 0.0;
        }
    }

    /// Tokens have come by a step that took so long.
    pub(super) fn stepped(&mut self, took: Duration) {
        let took = took.as_secs_f64();
        self.step = Some(mean(self.step, took));
        self.owed = (self.owed - took).max(0.0);
    }

    /// Tokens that were said before were run again, by a step that took so long.
    pub(super) fn read_said(&mut self, share: Share, took: Duration, others: bool) {
        self.stepped(took);
        if others {
            self.owe(share, took);
        }
    }

    /// Prompts have had so much of the time while answers waited, which have as much as their share of it is.
    fn owe(&mut self, share: Share, took: Duration) {
        let percent = f64::from(share.percent.clamp(1, 100));
        self.owed += took.as_secs_f64() * (100.0 - percent) / percent;
    }
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
                slices.read(share(), rows, takes, others);
                slices.stepped(ms(4));
            }
            let rows = slices.rows(share(), 512);
            assert!(rows < last || rows == LEAST, "{rows} after {last}");
            let fits = 20_000 / row_us;
            assert!(rows as u64 <= fits.max(LEAST as u64) && rows as u64 * 2 > fits.min(511));
            last = rows;
        }
    }

    #[test]
    fn prompts_have_their_share_of_the_time() {
        for (percent, steps) in [(50, 5), (20, 20), (100, 0)] {
            let share = Share { percent, ..share() };
            let mut slices = Slices::default();
            slices.stepped(ms(4));
            slices.read(share, 64, ms(20), true);
            let mut due = 0;
            while slices.owed() {
                slices.stepped(ms(4));
                due += 1;
            }
            assert_eq!(due, steps, "{percent} %");
        }
        let mut slices = Slices::default();
        slices.read(share(), 64, ms(20), false);
        assert!(!slices.owed(), "nobody waited");
    }
}
