//! The thread that writes sessions to the disk. All entries that arrive during a sync form the next group, so callers
//! never wait for the disk.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;

use super::entry::Entry;
use super::error::StoreError;
use super::log::Log;
use crate::choice::Choice;
use crate::journal;

/// What survives once a caller has received the end of its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// The turn is on the disk before the caller receives its end, so it survives a power cut.
    #[default]
    Turn,
    /// The turn is with the operating system and reaches the disk about a second later. It survives the end of the
    /// daemon.
    Relaxed,
}

impl Choice for Durability {
    const ALL: &'static [Self] = &[Self::Turn, Self::Relaxed];

    fn name(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Relaxed => "relaxed",
        }
    }
}

/// The longest time that a relaxed turn waits for its sync.
const RELAXED: Duration = Duration::from_secs(1);
/// The longest commit that is counted exactly, in microseconds: a minute.
const MOST: u64 = 60_000_000;

/// The open file of a session, shared by the thread and by readers of its length.
pub(super) type SharedLog = Arc<Mutex<Log>>;

pub(super) fn lock(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    log.lock()
}

type Done = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

struct Job {
    user: u32,
    log: SharedLog,
    entry: Entry,
    handed: Instant,
    done: Done,
}

/// The durations of commits in microseconds, from arrival until they are on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Commits {
    pub count: u64,
    /// The median.
    pub p50: u64,
    pub p99: u64,
}

#[derive(Debug)]
pub(super) struct Committer {
    jobs: Mutex<Sender<Job>>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    durability: Mutex<Durability>,
    took: Mutex<Histogram<u64>>,
}

impl Committer {
    pub(super) fn start(durability: Durability) -> io::Result<Self> {
        let (jobs, received) = mpsc::channel();
        let took = Histogram::new_with_bounds(1, MOST, 2).map_err(io::Error::other)?;
        let shared = Arc::new(Shared {
            durability: Mutex::new(durability),
            took: Mutex::new(took),
        });
        let commits = shared.clone();
        thread::Builder::new()
            .name("sessions".into())
            .spawn(move || run(&received, &commits))?;
        Ok(Self {
            jobs: Mutex::new(jobs),
            shared,
        })
    }

    pub(super) fn set_durability(&self, durability: Durability) {
        *self.shared.durability() = durability;
    }

    /// Appends an entry to a log. The thread calls `done` once the entry is as durable as the settings ask. If `done`
    /// gets an error, nothing of the entry is in the file.
    pub(super) fn append(&self, (user, log): (u32, SharedLog), entry: Entry, done: Done) {
        let job = Job {
            user,
            log,
            entry,
            handed: Instant::now(),
            done,
        };
        let jobs = self.jobs.lock();
        if let Err(mpsc::SendError(job)) = jobs.send(job) {
            (job.done)(Err(StoreError::Ended));
        }
    }

    pub(super) fn took(&self) -> Commits {
        let took = self.shared.took();
        Commits {
            count: took.len(),
            p50: took.value_at_quantile(0.5),
            p99: took.value_at_quantile(0.99),
        }
    }
}

impl Shared {
    fn durability(&self) -> MutexGuard<'_, Durability> {
        self.durability.lock()
    }

    fn took(&self) -> MutexGuard<'_, Histogram<u64>> {
        self.took.lock()
    }

    fn record(&self, handed: Instant) {
        let micros = u64::try_from(handed.elapsed().as_micros()).unwrap_or(MOST);
        self.took().saturating_record(micros.clamp(1, MOST));
    }
}

/// Processes one group after another until all senders are gone.
fn run(jobs: &Receiver<Job>, shared: &Shared) {
    let mut unsynced = Unsynced::default();
    loop {
        let first = match unsynced.wait() {
            None => jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(wait) => jobs.recv_timeout(wait),
        };
        match first {
            Ok(first) => {
                let group = [first].into_iter().chain(jobs.try_iter());
                let durability = *shared.durability();
                commit(group.collect(), durability, &mut unsynced, shared);
            }
            Err(RecvTimeoutError::Timeout) => unsynced.sync(),
            Err(RecvTimeoutError::Disconnected) => return unsynced.sync(),
        }
    }
}

/// Logs with entries that are not synced yet, and the time of the oldest one.
#[derive(Default)]
struct Unsynced {
    logs: Vec<(u32, SharedLog)>,
    since: Option<Instant>,
}

impl Unsynced {
    fn wait(&self) -> Option<Duration> {
        Some(RELAXED.saturating_sub(self.since?.elapsed()))
    }

    fn add(&mut self, user: u32, log: &SharedLog) {
        if !self.logs.iter().any(|(_, known)| Arc::ptr_eq(known, log)) {
            self.logs.push((user, log.clone()));
        }
        self.since.get_or_insert_with(Instant::now);
    }

    /// Syncs the logs. A failed sync is tried again later, because the callers have had their answers.
    fn sync(&mut self) {
        self.logs.retain(|(user, log)| {
            let mut log = lock(log);
            let was_told = log.is_doubtful();
            let Err(error) = log.sync() else {
                // Compaction is optional, as in `commit`.
                let _ = log.compact();
                return false;
            };
            if !was_told {
                let error = StoreError::io("sync", log.path())(error);
                journal::session_unwritten(&error.to_string(), *user);
            }
            true
        });
        self.since = (!self.logs.is_empty()).then(Instant::now);
    }
}

/// A file that was written to, and the callers that wait for its sync.
struct Written {
    user: u32,
    log: SharedLog,
    waiting: Vec<(Instant, Done)>,
}

/// Writes a group, syncs each of its files once, and calls each `done`.
fn commit(group: Vec<Job>, durability: Durability, unsynced: &mut Unsynced, shared: &Shared) {
    let is_late = unsynced.wait() == Some(Duration::ZERO);
    if is_late || durability == Durability::Turn {
        unsynced.sync();
    }
    let mut written: Vec<Written> = Vec::new();
    for Job {
        user,
        log,
        entry,
        handed,
        done,
    } in group
    {
        let appended = {
            let mut log = lock(&log);
            let appended = log.append(&entry);
            appended.map_err(|error| StoreError::io("write", log.path())(error))
        };
        if appended.is_err() {
            finish(user, done, appended);
        } else if durability == Durability::Relaxed {
            unsynced.add(user, &log);
            shared.record(handed);
            finish(user, done, appended);
        } else if let Some(known) = written.iter_mut().find(|one| Arc::ptr_eq(&one.log, &log)) {
            known.waiting.push((handed, done));
        } else {
            let waiting = vec![(handed, done)];
            written.push(Written { user, log, waiting });
        }
    }
    for Written { user, log, waiting } in written {
        let synced = {
            let mut log = lock(&log);
            let synced = log.sync();
            if synced.is_err() {
                log.discard_unsynced();
                // Until the cut, a reader of the file would find the failed entries. If the cut fails too, the next
                // append does it.
                let _ = log.cut();
            }
            synced.map_err(|error| StoreError::io("sync", log.path())(error))
        };
        for (handed, done) in waiting {
            if synced.is_ok() {
                shared.record(handed);
            }
            finish(user, done, synced.clone());
        }
        // No caller waits for compaction, and nothing is lost if the disk refuses.
        let _ = lock(&log).compact();
    }
}

fn finish(user: u32, done: Done, result: Result<(), StoreError>) {
    if let Err(error) = &result {
        journal::session_unwritten(&error.to_string(), user);
    }
    done(result);
}
