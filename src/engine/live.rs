//! What the engine does at this moment: written after every step, read by whoever looks, waited for by nobody.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::runner::{KindTime, Runner};
use crate::graph::{Counters, Counts, LifeCycle};
use crate::telemetry::Timing;

/// The decode graph, as it is told to the outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphStatus {
    /// invalid, recording, valid or disabled; empty while there is no engine with one.
    pub state: &'static str,
    /// Why it is or was last invalid, or what it has stayed valid after.
    pub reason: String,
    pub mode: &'static str,
    /// Changes of the KV cache so far.
    pub epoch: u64,
    /// Kernels of one replay.
    pub nodes: u64,
    pub counters: Counters,
    /// Refused calls in a row.
    pub failures_in_a_row: u32,
    pub last_error: String,
    /// Microseconds of the last recording.
    pub recording_us: u64,
    /// Of short prompts.
    pub prompts: Counts,
}

/// Whom the engine answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Of the last step; 0 while nobody answers.
    pub rows: u32,
    /// Whose prompt is being read.
    pub reading: u32,
    /// Who rests for others, also before the answer.
    pub suspended: u32,
    /// All of them, by priority: realtime, normal, background.
    pub of: [u32; 3],
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub work: Work,
    pub graph: GraphStatus,
    pub timing: Timing,
    /// Tokens chosen since the start.
    pub tokens: u64,
    /// Of the last step that was timed; empty before the first.
    pub kinds: Vec<KindTime>,
    /// Steps that were timed since the start.
    pub timed_steps: u64,
}

/// For so long after somebody has looked, steps are timed.
const WATCHED: Duration = Duration::from_secs(5);
/// Between two that are.
const APART: Duration = Duration::from_secs(1);

/// Who looks at how long operations take, and when that was last told.
#[derive(Debug, Default)]
struct Watch {
    looked: Option<Instant>,
    timed: Option<Instant>,
}

/// Behind a lock that is held for less than a microsecond.
#[derive(Debug, Default)]
pub(super) struct Live {
    snapshot: Mutex<Snapshot>,
    watch: Mutex<Watch>,
}

impl Live {
    pub(super) fn lock(&self) -> MutexGuard<'_, Snapshot> {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody looks at how long operations take.
    pub(super) fn look(&self) {
        self.watch().looked = Some(Instant::now());
    }

    /// Whether the next step is to be timed.
    pub(super) fn is_due(&self) -> bool {
        let watch = self.watch();
        let passed = |since: Option<Instant>| since.map(|since| since.elapsed());
        passed(watch.looked).is_some_and(|ago| ago < WATCHED)
            && passed(watch.timed).is_none_or(|ago| ago >= APART)
    }

    /// A step has been timed.
    pub(super) fn timed(&self, kinds: Vec<KindTime>) {
        self.watch().timed = Some(Instant::now());
        let mut snapshot = self.lock();
        snapshot.kinds = kinds;
        snapshot.timed_steps += 1;
    }

    /// Another model runs from now on: its operations have not been timed yet.
    pub(super) fn begin(&self) {
        self.watch().timed = None;
        self.lock().kinds.clear();
    }

    fn watch(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GraphStatus {
    pub(super) fn of(runner: &Runner) -> Self {
        let life = runner.graph();
        Self {
            state: life.state().name(),
            reason: life.reason().to_string(),
            mode: life.mode().name(),
            epoch: life.epoch(),
            nodes: life.nodes() as u64,
            counters: life.counters(),
            failures_in_a_row: life.failures(),
            last_error: life.last_error().unwrap_or_default().to_owned(),
            recording_us: micros(life),
            prompts: runner.prompt_graphs(),
        }
    }
}

fn micros(life: &LifeCycle) -> u64 {
    u64::try_from(life.last_recording().as_micros()).unwrap_or(u64::MAX)
}
