//! Runs turns and steps as in normal operation, and measures each of them.

use std::mem;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

use crate::executor::{Span, Timed};
use crate::kv::{Owner, Wanted};
use crate::runner::{RunError, Runner};
use crate::sampler::Parameters;

/// The most steps with timestamps at their operations.
const MEASURED: usize = 50;

/// The beginning and end of each operation of a step, in nanoseconds; `None` for an operation that another one
/// includes.
pub(super) type Spans = Vec<Option<Span>>;

/// The work of each turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Workload<'a> {
    pub(super) prompt: &'a [u32],
    /// Tokens after the prompt.
    pub(super) generate: usize,
    /// The sampling parameters.
    pub(super) parameters: Parameters,
}

/// The times of a turn that starts with an empty cache, in seconds.
pub(super) struct Turn {
    /// The time from the prompt's start to its first token.
    pub(super) prompt: f64,
    /// The time of all steps after the first token.
    pub(super) decode: f64,
    /// The processor time of all threads of the process, including ended ones.
    pub(super) cpu: f64,
    /// Bytes that the steps had to move.
    pub(super) bytes: u64,
    /// The duration of each step, and the host's working time in it.
    steps: Vec<(f64, f64)>,
}

impl Turn {
    /// Prefills a prompt, and then decodes one step ahead of the host.
    pub(super) fn run(runner: &mut Runner, work: Workload<'_>) -> Result<Self, RunError> {
        let start = Instant::now();
        runner.begin(None, new_user(), work.prompt, work.parameters)?;
        runner.prefill_all(work.prompt)?;
        let prompt = start.elapsed().as_secs_f64();
        let mut bytes = 0;
        let cpu = process_time();
        let laps = laps(work.generate, |_| {
            bytes += runner.step_bytes();
            runner.step(true)?;
            Ok(runner.step_times().waited)
        })?;
        let cpu = process_time().saturating_sub(cpu).as_secs_f64();
        let worked = |(whole, waited): &(Duration, Duration)| {
            let worked = whole.saturating_sub(*waited);
            (whole.as_secs_f64(), worked.as_secs_f64())
        };
        let steps: Vec<_> = laps.iter().map(worked).collect();
        let decode = steps.iter().map(|(whole, _)| whole).sum();
        Ok(Self {
            prompt,
            decode,
            cpu,
            bytes,
            steps,
        })
    }

    #[allow(clippy::cast_precision_loss)] // a count of tokens
    pub(super) fn generated(&self) -> f64 {
        self.steps.len() as f64
    }

    /// Returns the steps that are typical for a long answer.
    pub(super) fn steady(&self) -> &[(f64, f64)] {
        steady(&self.steps)
    }
}

/// Returns all but the first step, which records the graph and waits for two.
pub(super) fn steady<T>(steps: &[T]) -> &[T] {
    &steps[usize::from(steps.len() > 1)..]
}

/// Runs `count` steps; returns the duration and the result of each.
pub(super) fn laps<T>(
    count: usize,
    mut step: impl FnMut(usize) -> Result<T, RunError>,
) -> Result<Vec<(Duration, T)>, RunError> {
    let mut before = Instant::now();
    let lap = |at| {
        let done = step(at)?;
        let now = Instant::now();
        Ok((now - mem::replace(&mut before, now), done))
    };
    (0..count).map(lap).collect()
}

/// Prefills a prompt for each of `rows` conversations, which keep their slots of the cache until `end`; returns the
/// slots.
pub(super) fn begin(
    runner: &mut Runner,
    rows: usize,
    work: Workload<'_>,
) -> Result<Vec<usize>, RunError> {
    let conversation = |number: usize| {
        // Each prompt is another permutation of the same tokens.
        let mut prompt = work.prompt.to_vec();
        let by = number % prompt.len();
        prompt.rotate_left(by);
        let (entry, _) = runner.join(
            Some(Owner(number as u64)),
            new_user(),
            Wanted::without_answers(&prompt),
            work.parameters,
            prompt.len() + work.generate,
        )?;
        runner.prefill_all(&prompt)?;
        Ok(entry)
    };
    (0..rows).map(conversation).collect()
}

/// Releases the slots that `begin` returned.
pub(super) fn end(runner: &mut Runner, entries: &[usize]) {
    entries.iter().for_each(|entry| runner.leave(*entry));
}

/// Runs steps of `rows` conversations one at a time, each after a prompt, with timestamps at their operations.
pub(super) fn timed_steps(
    runner: &mut Runner,
    timed: Timed,
    rows: usize,
    work: Workload<'_>,
) -> Result<Vec<Spans>, RunError> {
    runner.measure(timed)?;
    let entries = begin(runner, rows, work)?;
    // Discards the timestamps of the prompts.
    runner.take_spans()?;
    let step = |_| {
        runner.step_rows(&entries, false)?;
        runner.take_spans()
    };
    let steps: Result<Vec<_>, _> = (0..work.generate.min(MEASURED)).map(step).collect();
    end(runner, &entries);
    Ok(steady(&steps?).to_vec())
}

/// Returns a new user, for whom the cache holds nothing.
fn new_user() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn process_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// Returns the median of `values`, 0 if there are none.
pub(super) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let values = sorted(values);
    let middle = values.len() / 2;
    match values.get(middle) {
        None => 0.0,
        Some(above) if values.len().is_multiple_of(2) => f64::midpoint(values[middle - 1], *above),
        Some(value) => *value,
    }
}

/// Returns the least of `values` that `percent` percent of them do not exceed, 0 if there are none.
pub(super) fn percentile(values: impl IntoIterator<Item = f64>, percent: usize) -> f64 {
    let values = sorted(values);
    let rank = (values.len() * percent).div_ceil(100);
    let value = values.get(rank.saturating_sub(1));
    value.copied().unwrap_or(0.0)
}

fn sorted(values: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_slow_step_of_a_hundred_is_above_the_99th_percentile_and_two_are_not() {
        let steps = |slow: u32| (0..100).map(move |n| if n < slow { 9.0 } else { 1.0 });
        assert_eq!(percentile(steps(1), 99).to_bits(), 1.0_f64.to_bits());
        assert_eq!(percentile(steps(2), 99).to_bits(), 9.0_f64.to_bits());
        assert_eq!(median([3.0, 1.0, 4.0, 2.0]).to_bits(), 2.5_f64.to_bits());
    }
}
