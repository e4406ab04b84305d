//! What the engine does at this moment: written after every step, read by whoever looks, waited for by nobody.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
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
    /// What became of recorded short prompts.
    pub prompts: Counts,
}

/// Whom the engine answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// The last step had so many; 0 while nobody answers.
    pub rows: u32,
    /// Whose prompt is being read.
    pub reading: u32,
    /// Who rests for others, also before the answer.
    pub suspended: u32,
    /// All of them, by priority: realtime, normal, background.
    pub of: [u32; 3],
    /// Pages of the cache, those of them that nothing is kept in, and those that have memory.
    pub pages: [u32; 3],
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub work: Work,
    pub graph: GraphStatus,
    pub timing: Timing,
    /// Tokens chosen since the start.
    pub tokens: u64,
    /// What the last step that was timed spent its time on; empty before the first.
    pub kinds: Vec<KindTime>,
    /// Steps that were timed since the start.
    pub timed_steps: u64,
}

/// For so long after somebody has looked, steps are timed.
const WATCHED: Duration = Duration::from_secs(5);
/// Between two that are.
const APART: Duration = Duration::from_secs(1);

/// Where it is shown, and who looks. Whoever looks holds the snapshot for a moment; the engine thread never waits for that:
/// it has `Figures`.
#[derive(Debug)]
pub(super) struct Live {
    snapshot: Mutex<Snapshot>,
    /// Times are counted from here.
    made: Instant,
    /// When somebody last looked at how long operations take, and when that was last told; never, at 0.
    looked: AtomicU64,
    timed: AtomicU64,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            snapshot: Mutex::default(),
            made: Instant::now(),
            looked: AtomicU64::new(0),
            timed: AtomicU64::new(0),
        }
    }
}

impl Live {
    pub(super) fn lock(&self) -> MutexGuard<'_, Snapshot> {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` while somebody looks.
    fn try_lock(&self) -> Option<MutexGuard<'_, Snapshot>> {
        match self.snapshot.try_lock() {
            Ok(snapshot) => Some(snapshot),
            Err(TryLockError::Poisoned(snapshot)) => Some(snapshot.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Somebody looks at how long operations take.
    pub(super) fn look(&self) {
        self.looked.store(self.now(), Ordering::Relaxed);
    }

    /// Whether the next step is to be timed.
    pub(super) fn is_due(&self) -> bool {
        let passed = |since: &AtomicU64| {
            let since = Some(since.load(Ordering::Relaxed)).filter(|since| *since > 0);
            since.map(|since| Duration::from_micros(self.now().saturating_sub(since)))
        };
        passed(&self.looked).is_some_and(|ago| ago < WATCHED)
            && passed(&self.timed).is_none_or(|ago| ago >= APART)
    }

    /// Another model runs from now on: its operations have not been timed yet.
    pub(super) fn begin(&self) {
        self.timed.store(0, Ordering::Relaxed);
        self.lock().kinds.clear();
    }

    /// In microseconds; never 0.
    fn now(&self) -> u64 {
        u64::try_from(self.made.elapsed().as_micros())
            .unwrap_or(u64::MAX)
            .max(1)
    }
}

/// What a step has come to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) tokens: u64,
    pub(super) counters: Counters,
    pub(super) prompts: Counts,
    /// What it took, how long the device had nothing to do, and how long the engine thread worked; unknown after something
    /// else than a step.
    pub(super) times: Option<[Duration; 3]>,
}

/// What the engine thread has to show. While somebody looks it keeps it, and shows it with the next.
#[derive(Debug, Default)]
pub(super) struct Figures {
    work: Work,
    samples: Vec<Sample>,
    /// What a step that was timed spent its time on.
    kinds: Option<Vec<KindTime>>,
}

impl Figures {
    pub(super) fn work(&self) -> Work {
        self.work
    }

    pub(super) fn set_work(&mut self, work: Work) {
        self.work = work;
    }

    pub(super) fn add(&mut self, sample: Sample) {
        self.samples.push(sample);
    }

    /// A step has been timed.
    pub(super) fn timed(&mut self, kinds: Vec<KindTime>, live: &Live) {
        live.timed.store(live.now(), Ordering::Relaxed);
        self.kinds = Some(kinds);
    }

    /// Shows it, unless somebody looks at this moment.
    pub(super) fn show(&mut self, live: &Live) {
        if let Some(mut snapshot) = live.try_lock() {
            self.write(&mut snapshot);
        }
    }

    /// Shows it, whoever looks: there is nothing else to do.
    pub(super) fn show_all(&mut self, live: &Live) {
        self.write(&mut live.lock());
    }

    fn write(&mut self, snapshot: &mut Snapshot) {
        snapshot.work = self.work;
        for sample in self.samples.drain(..) {
            snapshot.tokens += sample.tokens;
            snapshot.graph.counters = sample.counters;
            snapshot.graph.prompts = sample.prompts;
            if let Some([step, gap, host]) = sample.times {
                snapshot.timing.record(step, gap, host);
            }
        }
        if let Some(kinds) = self.kinds.take() {
            snapshot.kinds = kinds;
            snapshot.timed_steps += 1;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_looks_holds_up_no_step_and_misses_none() {
        let (live, mut figures) = (Live::default(), Figures::default());
        let sample = Sample {
            tokens: 2,
            counters: Counters::default(),
            prompts: Counts::default(),
            times: Some([Duration::from_millis(1); 3]),
        };
        let looks = live.lock();
        for _ in 0..3 {
            figures.add(sample);
            figures.show(&live);
        }
        assert_eq!(looks.tokens, 0, "it would have waited");
        drop(looks);
        figures.show(&live);
        let seen = live.lock();
        assert_eq!((seen.tokens, seen.timing.steps()), (6, 3));
    }

    #[test]
    fn steps_are_timed_while_somebody_looks_and_not_each() {
        let (live, mut figures) = (Live::default(), Figures::default());
        assert!(!live.is_due());
        live.look();
        assert!(live.is_due());
        figures.timed(Vec::new(), &live);
        assert!(!live.is_due());
        live.begin();
        assert!(live.is_due());
    }
}
