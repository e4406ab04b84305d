//! What the engine does at this moment: told after every step, read by whoever looks.
//!
//! The engine thread never waits for who looks: it sends its news, and whoever holds the snapshot next adds them to it, which
//! is the engine thread itself unless somebody looks at that moment.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use crate::graph::{Counters, Counts, LifeCycle};
use crate::runner::{KindTime, Runner};
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
    /// Pages of sessions that rest which the host's memory has.
    pub pages_in_host: u32,
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

/// What the engine thread has to tell.
#[derive(Debug)]
pub(crate) enum News {
    Work(Work),
    Graph(Box<GraphStatus>),
    Step(Sample),
    /// So many tokens have come, of which nothing else is known.
    Tokens(u64),
    /// A step has been timed: what it spent its time on.
    Timed(Vec<KindTime>),
    /// Another model runs from now on: its operations have not been timed yet.
    Begun,
}

/// What a step has come to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) tokens: u64,
    pub(crate) counters: Counters,
    pub(crate) prompts: Counts,
    /// What it took, how long the device had nothing to do, and how long the engine thread worked; unknown after something
    /// else than a step.
    pub(crate) times: Option<[Duration; 3]>,
}

/// What is shown, and who looks.
#[derive(Debug)]
pub(crate) struct Live {
    news: Sender<News>,
    shown: Mutex<Shown>,
    /// Times are counted from here.
    made: Instant,
    /// When somebody last looked at how long operations take, and when that was last told; never, at 0.
    looked: AtomicU64,
    timed: AtomicU64,
}

/// The snapshot, and the news that are not in it yet.
#[derive(Debug)]
struct Shown {
    snapshot: Snapshot,
    news: Receiver<News>,
}

impl Default for Live {
    fn default() -> Self {
        let (sender, news) = channel();
        let snapshot = Snapshot::default();
        Self {
            news: sender,
            shown: Mutex::new(Shown { snapshot, news }),
            made: Instant::now(),
            looked: AtomicU64::new(0),
            timed: AtomicU64::new(0),
        }
    }
}

impl Live {
    /// Whoever reads from now on sees it. Never waits.
    pub(crate) fn tell(&self, news: News) {
        match news {
            News::Timed(_) => self.timed.store(self.now(), Ordering::Relaxed),
            News::Begun => self.timed.store(0, Ordering::Relaxed),
            _ => {}
        }
        // The receiver lives as long as the sender.
        let _ = self.news.send(news);
        match self.shown.try_lock() {
            Ok(mut shown) => shown.catch_up(),
            Err(TryLockError::Poisoned(shown)) => shown.into_inner().catch_up(),
            // Somebody looks: the news are there for whoever is next.
            Err(TryLockError::WouldBlock) => {}
        }
    }

    pub(crate) fn read(&self) -> Snapshot {
        let mut shown = self.lock();
        shown.catch_up();
        shown.snapshot.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody looks at how long operations take.
    pub(crate) fn look(&self) {
        self.looked.store(self.now(), Ordering::Relaxed);
    }

    /// Whether the next step is to be timed.
    pub(crate) fn is_due(&self) -> bool {
        let passed = |since: &AtomicU64| {
            let since = Some(since.load(Ordering::Relaxed)).filter(|since| *since > 0);
            since.map(|since| Duration::from_micros(self.now().saturating_sub(since)))
        };
        passed(&self.looked).is_some_and(|ago| ago < WATCHED)
            && passed(&self.timed).is_none_or(|ago| ago >= APART)
    }

    /// The microseconds since this was made; it is never 0.
    fn now(&self) -> u64 {
        u64::try_from(self.made.elapsed().as_micros())
            .unwrap_or(u64::MAX)
            .max(1)
    }
}

impl Shown {
    fn catch_up(&mut self) {
        let Self { snapshot, news } = self;
        news.try_iter().for_each(|news| snapshot.add(news));
    }
}

impl Snapshot {
    fn add(&mut self, news: News) {
        match news {
            News::Work(work) => self.work = work,
            News::Graph(graph) => self.graph = *graph,
            News::Tokens(tokens) => self.tokens += tokens,
            News::Step(sample) => {
                self.tokens += sample.tokens;
                self.graph.counters = sample.counters;
                self.graph.prompts = sample.prompts;
                if let Some([step, gap, host]) = sample.times {
                    self.timing.record(step, gap, host);
                }
            }
            News::Timed(kinds) => {
                self.kinds = kinds;
                self.timed_steps += 1;
            }
            News::Begun => self.kinds.clear(),
        }
    }
}

impl GraphStatus {
    pub(crate) fn of(runner: &Runner) -> Self {
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
    use crate::engine::caller::client::Client;
    use crate::engine::caller::handle::channel;
    use crate::engine::caller::limits::{Limits, UserLimits};
    use crate::engine::caller::request::{Event, Options};
    use crate::engine::schedule::slices::Share;
    use crate::engine::sim::{self, Script};
    use crate::sampler::Parameters;

    #[test]
    fn who_looks_holds_up_nothing_and_misses_nothing() {
        let live = Live::default();
        let sample = Sample {
            tokens: 2,
            counters: Counters::default(),
            prompts: Counts::default(),
            times: Some([Duration::from_millis(1); 3]),
        };
        let graph = GraphStatus {
            state: "valid",
            ..GraphStatus::default()
        };
        // Each of these would wait for ever.
        let looks = live.lock();
        live.tell(News::Begun);
        for _ in 0..3 {
            live.tell(News::Step(sample));
        }
        live.tell(News::Graph(Box::new(graph)));
        live.tell(News::Work(Work {
            rows: 4,
            ..Work::default()
        }));
        assert_eq!(looks.snapshot.tokens, 0, "it changed under who looks");
        drop(looks);
        let seen = live.read();
        assert_eq!((seen.tokens, seen.timing.steps()), (6, 3));
        assert_eq!((seen.graph.state, seen.work.rows), ("valid", 4));
    }

    /// A turn begins, steps and ends while somebody has all that a property is read from.
    #[tokio::test]
    #[allow(clippy::await_holding_lock)] // that is what it is about
    async fn who_holds_what_is_read_stops_no_step() {
        let user = UserLimits {
            requests: 1,
            sessions: 1,
            queue_percent: 100,
            kv_percent: 100,
        };
        let (engine, inbox) = channel(Limits {
            prefill: Share::default(),
            grammar: crate::guide::Limits::USUAL,
            requests: 1,
            queue: 1,
            sessions: 1,
            user,
        });
        let runs = std::thread::spawn(move || sim::run(&inbox, &Script::default()));
        let client = Client {
            name: ":1.1".into(),
            user: 1,
        };
        let session = engine.open_session(client, Vec::new()).expect("a session");
        let held = (
            engine.shared.live.lock(),
            engine.status().borrow(),
            engine.shared.sessions().history(session),
        );
        let options = Options::new(9, Parameters::default());
        let sent = engine.send(session, "a b c".into(), options).await;
        let mut events = sent.expect("it is accepted").events;
        let answered = async {
            while let Some(event) = events.recv().await {
                if let Event::Done(outcome) = event {
                    return outcome;
                }
            }
            panic!("the engine has ended")
        };
        let answered = tokio::time::timeout(Duration::from_secs(60), answered).await;
        let outcome = answered.expect("it does not wait for who reads");
        assert_eq!(outcome.error, None);
        assert_eq!(held.0.snapshot.tokens, 0);
        drop(held);
        let made = outcome.usage.completion_tokens;
        assert_eq!(engine.live().tokens, u64::from(made));
        assert_eq!(engine.history(session).map(|said| said.len()), Some(2));
        engine.close();
        runs.join().expect("it ends");
    }

    #[test]
    fn steps_are_timed_while_somebody_looks_and_not_each() {
        let live = Live::default();
        assert!(!live.is_due());
        live.look();
        assert!(live.is_due());
        live.tell(News::Timed(Vec::new()));
        assert!(!live.is_due());
        live.tell(News::Begun);
        assert!(live.is_due());
    }
}
