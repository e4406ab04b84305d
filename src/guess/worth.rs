//! Whether guesses pay: the tokens that they gain, against the time of their rows and of the passes that make them. All are
//! measured.

use std::time::Duration;

/// The weight of a new time in the average.
const NEW: f64 = 0.1;
/// Before anything is known, this part of so many guesses counts as right.
const USUAL: (f64, f64) = (2.0, 3.0);
/// A guess that takes a pass to make is made if it is right, together with those before it, in this part of all cases.
const LIKELY: f64 = 0.3;
/// What stays of the memory of guesses after each token, so that a conversation in which they did not pay tries them again.
const KEPT: f64 = 0.995;

/// The measured times of steps, by the rows that they are padded to.
#[derive(Clone, Copy, Debug, Default)]
pub struct StepCosts([Option<f64>; 4]);

impl StepCosts {
    /// Adds the time from the tokens of the step before to those of a step with a number of rows.
    pub fn record(&mut self, rows: usize, took: Duration) {
        let took = took.as_secs_f64();
        if let Some(average) = self.0.get_mut(size(rows)) {
            *average = Some(average.map_or(took, |before| before + NEW * (took - before)));
        }
    }

    /// Returns the number of guesses, at most `most`, with which a step of a number of rows makes the most tokens in a time.
    /// `acceptance` is the probability that a guess is right if those before it are. A size that was never measured counts as
    /// the next smaller one, so that it is tried.
    #[must_use]
    pub fn best(&self, rows: usize, most: usize, acceptance: f64) -> usize {
        self.best_at(rows, most, acceptance, 0.0)
    }

    /// Returns the same if making a guess takes a time, in seconds.
    #[must_use]
    pub fn best_at(&self, rows: usize, most: usize, acceptance: f64, each: f64) -> usize {
        #[allow(clippy::cast_precision_loss)] // rows are few
        let (mut tokens, mut gained) = (rows as f64, 1.0);
        let (mut best, mut fastest) = (0, tokens / self.of(rows));
        let mut making = 0.0;
        for guesses in 1..=most {
            gained *= acceptance;
            tokens += gained;
            making += each;
            let speed = tokens / (self.of(rows + guesses) + making);
            if speed > fastest {
                (best, fastest) = (guesses, speed);
            }
        }
        best
    }

    /// Returns the time of a step with a number of rows, in seconds; `None` before it is known.
    #[must_use]
    pub fn time(&self, rows: usize) -> Option<f64> {
        *self.0.get(size(rows))?
    }

    fn of(&self, rows: usize) -> f64 {
        let measured = self.0.iter().take(size(rows) + 1).rev();
        measured.flatten().next().copied().unwrap_or(1.0)
    }
}

/// The index of the size that a number of rows is padded to: 1, 2, 4 or 8.
fn size(rows: usize) -> usize {
    rows.max(1).next_power_of_two().ilog2() as usize
}

/// How many guesses of one conversation were right.
#[derive(Clone, Copy, Debug)]
pub struct Acceptance {
    right: f64,
    tried: f64,
}

impl Default for Acceptance {
    fn default() -> Self {
        let (right, tried) = USUAL;
        Self { right, tried }
    }
}

impl Acceptance {
    /// Adds the guesses of a step. Those after the first wrong one say nothing.
    pub fn record(&mut self, proposed: usize, accepted: usize) {
        #[allow(clippy::cast_precision_loss)] // they are few
        let right = accepted as f64;
        self.right += right;
        self.tried += right + f64::from(u8::from(accepted < proposed));
    }

    /// Forgets a little, after each token of the conversation.
    pub fn age(&mut self) {
        let (right, tried) = USUAL;
        self.right = right + KEPT * (self.right - right);
        self.tried = tried + KEPT * (self.tried - tried);
    }

    /// Returns the probability that a guess is right if those before it are.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.right / self.tried
    }

    /// Returns the number of guesses, from 1 to `most`, of which the last is right often enough. Each takes a pass to make.
    #[must_use]
    pub fn likely(&self, most: usize) -> usize {
        let (rate, mut right) = (self.rate(), 1.0);
        let each = std::iter::repeat_with(|| {
            right *= rate;
            right
        });
        let likely = each.take(most).take_while(|right| *right >= LIKELY);
        likely.count().max(1).min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(times: [u64; 4]) -> StepCosts {
        let mut costs = StepCosts::default();
        for (rows, took) in [1, 2, 4, 8].into_iter().zip(times) {
            costs.record(rows, Duration::from_micros(took));
        }
        costs
    }

    #[test]
    fn guesses_pay_where_their_rows_cost_less_than_they_gain() {
        // On a GPU more rows cost little, and a padded size costs the same with any of its rows.
        let gpu = costs([1000, 1100, 1200, 1350]);
        assert_eq!(gpu.best(1, 7, 0.95), 7);
        assert_eq!(gpu.best(1, 2, 0.3), 1, "three rows are padded to four");
        assert_eq!(gpu.best(1, 7, 0.02), 0);
        assert_eq!(gpu.best(4, 4, 0.9), 4);
        assert_eq!(gpu.best(4, 4, 0.02), 0);
        assert_eq!(gpu.best(3, 5, 0.02), 1, "it has a row of padding");
        // Each row costs as much as the first.
        let slow = costs([1000, 2000, 4000, 8000]);
        assert_eq!(slow.best(1, 7, 0.95), 0);
    }

    #[test]
    fn passes_that_make_guesses_cost_time() {
        let gpu = costs([1000, 1100, 1200, 1350]);
        assert_eq!(gpu.best_at(1, 7, 0.95, 0.0), 7);
        let few = gpu.best_at(1, 7, 0.8, 150e-6);
        assert!((1..7).contains(&few), "{few}");
        assert_eq!(gpu.best_at(1, 7, 0.95, 1000e-6), 0);
    }

    #[test]
    fn unlikely_guesses_are_not_made() {
        let mut acceptance = Acceptance::default();
        assert_eq!(acceptance.likely(7), 2);
        assert_eq!(acceptance.likely(0), 0);
        (0..20).for_each(|_| acceptance.record(7, 7));
        assert_eq!(acceptance.likely(7), 7);
        (0..200).for_each(|_| acceptance.record(7, 0));
        assert_eq!(acceptance.likely(7), 1);
    }

    #[test]
    fn a_size_is_tried_once() {
        let mut costs = StepCosts::default();
        costs.record(1, Duration::from_millis(1));
        assert_eq!(costs.best(1, 7, 0.5), 7);
        costs.record(8, Duration::from_millis(9));
        assert_eq!(costs.best(1, 7, 0.5), 3);
        costs.record(4, Duration::from_millis(9));
        costs.record(2, Duration::from_millis(9));
        assert_eq!(costs.best(1, 7, 0.5), 0);
    }

    #[test]
    fn wrong_guesses_count_until_they_are_old() {
        let mut of_right = Acceptance::default();
        let mut of_wrong = Acceptance::default();
        for _ in 0..20 {
            of_right.record(4, 4);
            of_wrong.record(4, 0);
        }
        assert!(of_right.rate() > 0.95, "{of_right:?}");
        assert!(of_wrong.rate() < 0.1, "{of_wrong:?}");
        for _ in 0..2000 {
            of_right.age();
            of_wrong.age();
        }
        let usual = Acceptance::default().rate();
        for one in [of_right, of_wrong] {
            assert!((one.rate() - usual).abs() < 0.05, "{one:?}");
        }
    }
}
