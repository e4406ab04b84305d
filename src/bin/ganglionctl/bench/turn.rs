//! One turn from an empty cache: a prompt, then token after token, and what each of them took.

use std::time::{Duration, Instant};

use ganglion::engine::runner::{RunError, Runner};
use nix::time::{ClockId, clock_gettime};

use crate::offline;

/// What a turn took.
pub(super) struct Turn {
    /// Until the prompt's first token had been chosen.
    pub(super) prompt: Duration,
    /// All steps after it.
    pub(super) decode: Duration,
    /// Bytes that the steps had to move.
    pub(super) bytes: u64,
    /// Of the process, all threads together, meanwhile.
    pub(super) cpu: Duration,
    steps: Vec<Step>,
}

/// What a step took.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) whole: Duration,
    /// Of that, the host worked rather than waited.
    pub(super) host: Duration,
}

impl Turn {
    /// Runs one.
    ///
    /// # Errors
    /// As `Runner::step`.
    pub(super) fn run(
        runner: &mut Runner,
        prompt: &[u32],
        generate: usize,
    ) -> Result<Self, RunError> {
        let mut steps = Vec::with_capacity(generate);
        let start = Instant::now();
        offline::prefill(runner, prompt)?;
        let prompt = start.elapsed();

        let mut bytes = 0;
        let cpu = process_time();
        let start = Instant::now();
        let mut before = start;
        for _ in 0..generate {
            bytes += runner.step_bytes();
            runner.step(true)?;
            let now = Instant::now();
            let whole = now - before;
            steps.push(Step {
                whole,
                host: whole.saturating_sub(runner.pace().waited),
            });
            before = now;
        }
        Ok(Self {
            prompt,
            decode: start.elapsed(),
            bytes,
            cpu: process_time().saturating_sub(cpu),
            steps,
        })
    }

    pub(super) fn generated(&self) -> usize {
        self.steps.len()
    }

    /// Steps like the thousands that follow: all but the first, which records the graph and waits for two.
    pub(super) fn steady(&self) -> &[Step] {
        match &self.steps[..] {
            [_, rest @ ..] if !rest.is_empty() => rest,
            steps => steps,
        }
    }
}

/// Of all threads, those that have ended too.
fn process_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}
