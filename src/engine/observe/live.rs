//! What the engine does at this moment: a snapshot that is updated after every step.
//!
//! The engine thread never waits for a reader. It sends its news to a channel, and the next thread that has the snapshot's
//! lock adds them: the engine thread itself, unless a reader has the lock at that moment.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use crate::graph::{Counters, Counts, LifeCycle};
use crate::runner::{KindTime, LostStates, RetiredRunner, Runner};
use crate::telemetry::{Proposals, Timing};

/// The state of the decode graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphStatus {
    /// invalid, recording, valid or disabled; empty while there is no model.
    pub state: &'static str,
    /// Why it is invalid or was last, or the change after which it stayed valid.
    pub reason: String,
    pub mode: &'static str,
    /// Changes of the KV cache so far.
    pub epoch: u64,
    /// Kernels of one replay.
    pub nodes: u64,
    pub counters: Counters,
    /// Consecutive calls that the driver refused.
    pub failures_in_a_row: u32,
    pub last_error: String,
    /// Microseconds of the last recording.
    pub recording_us: u64,
    /// Counts of recorded short prompts.
    pub prompts: Counts,
}

/// How many generations the engine runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// The rows of the last step; 0 while none decodes.
    pub rows: u32,
    /// Generations whose prompt is being prefilled.
    pub reading: u32,
    /// Generations that are suspended, before or during the answer.
    pub suspended: u32,
    /// All of them, by priority: realtime, normal, background.
    pub of: [u32; 3],
    /// Pages of the cache: all, free, with memory.
    pub pages: [u32; 3],
    /// Sequences that lost their pages of the cache to others since the model was loaded.
    pub evictions: u64,
    /// Pages of idle sessions in the host's memory.
    pub pages_in_host: u32,
    /// Recurrent states that slots have lost to others since the daemon started.
    pub lost_states: LostStates,
}

/// How often images were encoded, and what stays of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImageCounts {
    /// Images that the tower has encoded since the start.
    pub encoded: u64,
    /// Images of requests whose embeddings were still there.
    pub reused: u64,
    /// Bytes of the embeddings that are kept, and of their images as received.
    pub cache_bytes: u64,
}

/// What the engine does at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub work: Work,
    pub graph: GraphStatus,
    pub timing: Timing,
    /// Tokens chosen since the start.
    pub tokens: u64,
    /// Guesses since the start, by proposer.
    pub proposals: Proposals,
    /// The time of each kind of operation in the last timed step; empty before the first.
    pub kinds: Vec<KindTime>,
    /// Steps that were timed since the start.
    pub timed_steps: u64,
    pub images: ImageCounts,
}

/// How long steps are timed after their times were read.
const WATCHED: Duration = Duration::from_secs(5);
/// The time between two timed steps.
const APART: Duration = Duration::from_secs(1);

/// What the engine thread publishes.
#[derive(Debug)]
pub(crate) enum News {
    Work(Work),
    Images(ImageCounts),
    Graph(Box<GraphStatus>),
    Step(Sample),
    /// A number of tokens, without anything else.
    Tokens(u64),
    /// The time of each kind of operation in a step.
    Timed(Vec<KindTime>),
    /// Another model runs, whose operations have not been timed yet.
    Begun,
}

/// The figures of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) tokens: u64,
    pub(crate) guesses: Proposals,
    pub(crate) counters: Counters,
    pub(crate) prompts: Counts,
    /// The time of the step, of the idle device and of the engine thread; `None` if not only a step ran.
    pub(crate) times: Option<[Duration; 3]>,
}

/// The snapshot, its news, and when its readers have read.
#[derive(Debug)]
pub(crate) struct Live {
    news: Sender<News>,
    published: Mutex<Published>,
    /// Times are counted from here.
    created: Instant,
    /// When the times of operations were last read, and when they were last published; 0 is never.
    read: AtomicU64,
    timed: AtomicU64,
}

/// The snapshot, and news that are not in it yet.
#[derive(Debug)]
struct Published {
    snapshot: Snapshot,
    news: Receiver<News>,
}

impl Default for Live {
    fn default() -> Self {
        let (sender, news) = channel();
        let snapshot = Snapshot::default();
        Self {
            news: sender,
            published: Mutex::new(Published { snapshot, news }),
            created: Instant::now(),
            read: AtomicU64::new(0),
            timed: AtomicU64::new(0),
        }
    }
}

impl Live {
    /// Publishes news to later readers. Never waits.
    pub(crate) fn publish(&self, news: News) {
        match news {
            News::Timed(_) => self.timed.store(self.now(), Ordering::Relaxed),
            News::Begun => self.timed.store(0, Ordering::Relaxed),
            _ => {}
        }
        // The receiver lives as long as the sender.
        let _ = self.news.send(news);
        // If a reader has the lock, the next reader adds the news.
        if let Some(mut published) = self.published.try_lock() {
            published.catch_up();
        }
    }

    pub(crate) fn read(&self) -> Snapshot {
        let mut published = self.lock();
        published.catch_up();
        published.snapshot.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Published> {
        self.published.lock()
    }

    /// Notes that the times of operations are read.
    pub(crate) fn note_reader(&self) {
        self.read.store(self.now(), Ordering::Relaxed);
    }

    /// Whether the next step is to be timed.
    pub(crate) fn is_timing_due(&self) -> bool {
        let passed = |since: &AtomicU64| {
            let since = Some(since.load(Ordering::Relaxed)).filter(|since| *since > 0);
            since.map(|since| Duration::from_micros(self.now().saturating_sub(since)))
        };
        passed(&self.read).is_some_and(|ago| ago < WATCHED)
            && passed(&self.timed).is_none_or(|ago| ago >= APART)
    }

    /// Returns the microseconds since it was created, and never 0.
    fn now(&self) -> u64 {
        u64::try_from(self.created.elapsed().as_micros())
            .unwrap_or(u64::MAX)
            .max(1)
    }
}

impl Published {
    fn catch_up(&mut self) {
        let Self { snapshot, news } = self;
        news.try_iter().for_each(|news| snapshot.add(news));
    }
}

impl Snapshot {
    fn add(&mut self, news: News) {
        match news {
            News::Work(work) => self.work = work,
            News::Images(images) => self.images = images,
            News::Graph(graph) => self.graph = *graph,
            News::Tokens(tokens) => self.tokens += tokens,
            News::Step(sample) => {
                self.tokens += sample.tokens;
                self.proposals.add_all(sample.guesses);
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
        Self::of_life(runner.graph(), runner.prompt_graphs())
    }

    pub(crate) fn of_retired(runner: &RetiredRunner) -> Self {
        Self::of_life(runner.graph(), runner.prompt_graphs())
    }

    fn of_life(life: &LifeCycle, prompts: Counts) -> Self {
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
            prompts,
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
    use crate::telemetry::{GuessCounts, Proposer};

    #[test]
    fn a_reader_delays_nothing_and_misses_nothing() {
        let live = Live::default();
        let mut guesses = Proposals::default();
        let counts = GuessCounts {
            proposed: 3,
            accepted: 1,
        };
        guesses.add(Proposer::Lookup, counts);
        let sample = Sample {
            tokens: 2,
            guesses,
            counters: Counters::default(),
            prompts: Counts::default(),
            times: Some([Duration::from_millis(1); 3]),
        };
        let graph = GraphStatus {
            state: "valid",
            ..GraphStatus::default()
        };
        // The reader holds the lock meanwhile.
        let reader = live.lock();
        live.publish(News::Begun);
        for _ in 0..3 {
            live.publish(News::Step(sample));
        }
        live.publish(News::Graph(Box::new(graph)));
        live.publish(News::Work(Work {
            rows: 4,
            ..Work::default()
        }));
        assert_eq!(reader.snapshot.tokens, 0, "it changed while it was read");
        drop(reader);
        let seen = live.read();
        assert_eq!((seen.tokens, seen.timing.steps()), (6, 3));
        let GuessCounts { proposed, accepted } = seen.proposals.all();
        assert_eq!((proposed, accepted), (9, 3));
        assert_eq!((seen.graph.state, seen.work.rows), ("valid", 4));
    }

    /// A request begins, steps and ends while a reader holds all locks that a property is read from.
    #[tokio::test]
    #[allow(clippy::await_holding_lock)] // the test is about that
    async fn a_reader_that_holds_its_locks_stops_no_step() {
        let user = UserLimits {
            requests: 1,
            sessions: 1,
            queue_percent: 100,
            kv_percent: 100,
        };
        let (engine, receiver) = channel(Limits {
            prefill: Share::default(),
            grammar: crate::guide::Limits::USUAL,
            requests: 1,
            queue: 1,
            sessions: 1,
            user,
        });
        let runs = std::thread::spawn(move || sim::run(&receiver, &Script::default()));
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
        let outcome = answered.expect("it does not wait for the reader");
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
    fn steps_are_timed_once_a_second_while_their_times_are_read() {
        let live = Live::default();
        assert!(!live.is_timing_due());
        live.note_reader();
        assert!(live.is_timing_due());
        live.publish(News::Timed(Vec::new()));
        assert!(!live.is_timing_due());
        live.publish(News::Begun);
        assert!(live.is_timing_due());
    }
}
