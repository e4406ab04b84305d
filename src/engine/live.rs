//! What the engine does at this moment: written after every step, read by whoever looks, waited for by nobody.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::runner::Runner;
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

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub graph: GraphStatus,
    pub timing: Timing,
    /// Tokens chosen since the start.
    pub tokens: u64,
}

/// Behind a lock that is held for less than a microsecond.
#[derive(Debug, Default)]
pub(super) struct Live(Mutex<Snapshot>);

impl Live {
    pub(super) fn lock(&self) -> MutexGuard<'_, Snapshot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
