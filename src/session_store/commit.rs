//! The thread that writes sessions to the disk: all that is handed to it while it syncs is the next group. It alone waits
//! for the disk.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

use super::entry::Entry;
use super::error::StoreError;
use super::log::Log;
use crate::choice::Choice;
use crate::journal;

/// What a caller who was told of its answer may rely on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// A turn is on the disk when its end is told: it outlives a power cut.
    #[default]
    Turn,
    /// It is with the system, which has it on the disk about a second later: it outlives the daemon.
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

/// What relaxed turns wait for at most.
const RELAXED: Duration = Duration::from_secs(1);
/// A commit that takes longer counts as this many microseconds: a minute.
const MOST: u64 = 60_000_000;

/// The open file of a session, which the thread and those who read its length share.
pub(super) type SharedLog = Arc<Mutex<Log>>;

pub(super) fn lock(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    // Every change of a log is whole before anything could panic.
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

type Done = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

struct Job {
    user: u32,
    log: SharedLog,
    entry: Entry,
    handed: Instant,
    done: Done,
}

/// What commits took, from when they were handed over until they were on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Commits {
    pub count: u64,
    /// Half of them took no longer than so many microseconds.
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

    /// Appends an entry to a log. `done` is told on the thread when it is as durable as it is to be, or why it is not, in
    /// which case nothing of it is there.
    pub(super) fn append(&self, (user, log): (u32, SharedLog), entry: Entry, done: Done) {
        let job = Job {
            user,
            log,
            entry,
            handed: Instant::now(),
            done,
        };
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
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
        self.durability
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn took(&self) -> MutexGuard<'_, Histogram<u64>> {
        self.took.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, handed: Instant) {
        let micros = u64::try_from(handed.elapsed().as_micros()).unwrap_or(MOST);
        self.took().saturating_record(micros.clamp(1, MOST));
    }
}

/// Takes one group after another until nobody can hand over any more.
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

/// Logs that were written to and not synced, since when.
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

    /// What cannot be synced is tried again later: its callers were told that it is there.
    fn sync(&mut self) {
        self.logs.retain(|(user, log)| {
            let mut log = lock(log);
            let was_told = log.is_doubtful();
            let Err(error) = log.sync() else {
                // As in `commit`.
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

/// What was written to a file, with those who wait until it is synced.
struct Written {
    user: u32,
    log: SharedLog,
    waiting: Vec<(Instant, Done)>,
}

/// Writes a group, syncs each of its files once, and tells everyone.
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
            tell(user, done, appended);
        } else if durability == Durability::Relaxed {
            unsynced.add(user, &log);
            shared.record(handed);
            tell(user, done, appended);
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
                log.take_back();
                // Else whoever reads the file before something is appended would find it. Where this fails too the next one does it.
                let _ = log.cut();
            }
            synced.map_err(|error| StoreError::io("sync", log.path())(error))
        };
        for (handed, done) in waiting {
            if synced.is_ok() {
                shared.record(handed);
            }
            tell(user, done, synced.clone());
        }
        // Nobody waits for it, and where the disk refuses nothing is lost.
        let _ = lock(&log).compact();
    }
}

fn tell(user: u32, done: Done, result: Result<(), StoreError>) {
    if let Err(error) = &result {
        journal::session_unwritten(&error.to_string(), user);
    }
    done(result);
}
