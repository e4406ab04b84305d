//! Facts about the sessions of a user: counts and times that its entries update, or the reason why it cannot be read.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::brief::Brief;
use super::commit::lock;
use super::entry::Entry;
use super::error::StoreError;
use super::log::Log;
use super::past::Past;

/// A session of a user.
#[derive(Debug)]
pub(super) enum Session {
    Readable(Facts),
    /// The file stays as it is; the error is the reason.
    Unreadable(StoreError),
}

/// Facts about a session, which its entries update while it is open.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) summary: Arc<Mutex<Summary>>,
    /// The length of its file.
    pub(super) bytes: Arc<AtomicU64>,
    pub(super) log: Weak<Mutex<Log>>,
    /// The number of entries on their way to the disk.
    pub(super) pending: Arc<AtomicUsize>,
    /// Whether the index is up to date for this session.
    pub(super) indexed: Arc<AtomicBool>,
}

/// Facts about a session, without its messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub turns: u32,
    /// The length of its file.
    pub bytes: u64,
    /// Seconds since 1970.
    pub began: u64,
    /// When its last turn ended.
    pub used: u64,
    /// The reason if the session cannot be read.
    pub error: Option<String>,
    /// Damaged files of the session, which were set aside and are not read. If there is nothing else, the session does
    /// not exist any more.
    pub damaged: Vec<PathBuf>,
}

impl Facts {
    pub(super) fn new(summary: Summary, bytes: Arc<AtomicU64>) -> Self {
        Self {
            summary: Arc::new(Mutex::new(summary)),
            bytes,
            log: Weak::new(),
            pending: Arc::default(),
            indexed: Arc::default(),
        }
    }

    /// Returns the facts about a session that has been read.
    pub(super) fn read(log: &Log, past: &Past) -> Self {
        let summary = Summary {
            turns: u32::try_from(past.turns.len()).unwrap_or(u32::MAX),
            began: past.began,
            used: past.used,
            ..Summary::default()
        };
        Self::new(summary, log.bytes())
    }

    /// Builds the facts about a session whose file is not open.
    pub(super) fn of(brief: Brief, indexed: bool) -> Self {
        let Brief {
            turns,
            bytes,
            began,
            used,
        } = brief;
        let summary = Summary {
            turns,
            began,
            used,
            ..Summary::default()
        };
        let facts = Self::new(summary, Arc::new(AtomicU64::new(bytes)));
        facts.indexed.store(indexed, Ordering::Relaxed);
        facts
    }

    /// Brings the entries of an open log to the disk, before its file is read. The commit thread may still have the log:
    /// it finds nothing left to write, and does not replace the file.
    pub(super) fn settle(&self) -> Result<(), StoreError> {
        let Some(log) = self.log.upgrade() else {
            return Ok(());
        };
        let mut log = lock(&log);
        log.retire();
        // Unconfirmed entries are cut off.
        let synced = log.cut().and_then(|()| log.sync());
        synced.map_err(|error| StoreError::io("sync", log.path())(error))
    }

    pub(super) fn summary(&self) -> MutexGuard<'_, Summary> {
        self.summary.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn brief(&self) -> Brief {
        let summary = self.summary();
        Brief {
            turns: summary.turns,
            bytes: self.bytes.load(Ordering::Relaxed),
            began: summary.began,
            used: summary.used,
        }
    }
}

impl Session {
    pub(super) fn summary(&self) -> Summary {
        match self {
            Self::Readable(facts) => Summary {
                bytes: facts.bytes.load(Ordering::Relaxed),
                ..facts.summary().clone()
            },
            Self::Unreadable(error) => Summary {
                error: Some(error.to_string()),
                ..Summary::default()
            },
        }
    }
}

/// The change of a summary by an entry.
pub(super) enum Change {
    Nothing,
    Turn { at: u64, dropped: u32 },
    Left(u32),
}

impl Change {
    pub(super) fn of(entry: &Entry) -> Self {
        match entry {
            Entry::Turn(turn) => Self::Turn {
                at: turn.at,
                dropped: turn.dropped,
            },
            Entry::Rewound { turns } => Self::Left(*turns),
            Entry::Opened { .. } | Entry::Options { .. } | Entry::Appended { .. } => Self::Nothing,
        }
    }

    pub(super) fn apply(&self, summary: &mut Summary) {
        match *self {
            Self::Nothing => {}
            Self::Turn { at, dropped } => {
                summary.turns = summary.turns.saturating_sub(dropped) + 1;
                // The clock may have been set back.
                summary.used = summary.used.max(at);
            }
            Self::Left(turns) => summary.turns = turns,
        }
    }
}
