//! Idle sessions whose pages are not saved yet, and the session whose pages are being saved.

use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use crate::kv::{Owner, PagePlace};
use crate::kv_store::{Filling, Whose};

/// How soon the device is polled for a page that it copies, if nothing else happens.
const COPY: Duration = Duration::from_micros(200);

/// Idle sessions whose pages are to be saved.
#[derive(Debug, Default)]
pub(super) struct Unsaved {
    pub(super) idle: Vec<Idle>,
    pub(super) current: Option<Current>,
}

/// Where pages are saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tier {
    Host,
    Disk,
}

/// How long a session is idle before its pages are saved.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delays {
    pub(super) host: Duration,
    pub(super) disk: Duration,
}

impl Delays {
    const fn of(self, tier: Tier) -> Duration {
        match tier {
            Tier::Host => self.host,
            Tier::Disk => self.disk,
        }
    }
}

/// An idle session whose pages are to be saved in a tier.
#[derive(Debug)]
pub(super) struct Idle {
    pub(super) owner: Owner,
    pub(super) user: u32,
    pub(super) whose: Whose,
    pub(super) tier: Tier,
    pub(super) since: Instant,
    /// Whether the session has closed, so that its pages are released once they are saved.
    pub(super) closed: bool,
}

/// The session whose pages are being saved.
#[derive(Debug)]
pub(super) struct Current {
    pub(super) idle: Idle,
    /// Its pages, valid until the session is used again.
    pub(super) pages: Vec<(PagePlace, usize)>,
    pub(super) used: (u64, usize),
    /// How many of the pages the device was asked to copy.
    pub(super) asked: usize,
    /// How many of them were handed over.
    pub(super) sent: usize,
    /// The page to be handed over next.
    pub(super) ready: Option<Vec<u8>>,
    pub(super) to: Destination,
}

#[derive(Debug)]
pub(super) enum Destination {
    Host(Filling),
    Disk(SyncSender<Vec<u8>>),
}

impl Unsaved {
    pub(super) fn is_empty(&self) -> bool {
        self.idle.is_empty() && self.current.is_none()
    }

    /// Returns when there is something to do next, unless the disk reports before.
    pub(super) fn due(&self, delays: Delays) -> Option<Instant> {
        let due = |one: &Idle| one.since + delays.of(one.tier);
        match &self.current {
            Some(current) => current.ready.is_none().then(|| Instant::now() + COPY),
            None => self.idle.iter().map(due).min(),
        }
    }

    /// Adds a session whose saving was interrupted, unless it was added again meanwhile.
    pub(super) fn retry(&mut self, idle: Idle) {
        let is_same = |one: &Idle| (&one.whose, one.tier) == (&idle.whose, idle.tier);
        if !self.idle.iter().any(is_same) {
            self.idle.push(idle);
        }
    }

    /// Forgets all sessions: the pages of a replaced model are useless.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Marks a session as closed. Returns whether its pages are still to be saved.
    pub(super) fn close(&mut self, owner: Owner) -> bool {
        let current = self.current.as_mut().map(|one| &mut one.idle);
        let all = self.idle.iter_mut().chain(current);
        let all = all.filter(|one| one.owner == owner);
        all.map(|one| one.closed = true).count() > 0
    }

    pub(super) fn remove(&mut self, owner: Owner) {
        self.current.take_if(|one| one.idle.owner == owner);
        self.idle.retain(|one| one.owner != owner);
    }

    /// Removes and returns the session that has become due last: it is the likeliest to be used again.
    pub(super) fn take_due(&mut self, delays: Delays) -> Option<Idle> {
        let now = Instant::now();
        let is_due = |one: &Idle| now - one.since >= delays.of(one.tier);
        let last = self.idle.iter().rposition(is_due)?;
        Some(self.idle.remove(last))
    }
}
