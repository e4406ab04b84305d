//! What is on the disk of a session comes back to its pages, one between two steps, when it is asked again. Its turn has joined
//! meanwhile and runs no step.

use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use super::Worker;
use crate::engine::runner::RunError;
use crate::kv::{Family, PAGE};
use crate::kv_store::{Arrived, Key, Load};

/// A disk that gives nothing for so long is not waited for: its text is read again.
const PATIENCE: Duration = Duration::from_secs(5);

/// A turn whose pages are on their way.
#[derive(Debug)]
pub(super) struct Restore {
    pub(super) id: u64,
    arrived: Receiver<Arrived>,
    /// What all of its pages will hold.
    tokens: Vec<(u32, Family)>,
    /// The next page that comes.
    next: usize,
    /// That page, where too many are on their way into the cache.
    waits: Option<Vec<u8>>,
    since: Instant,
}

impl Worker<'_> {
    /// What pages depend on now.
    pub(super) fn pages_key(&self) -> Option<Key> {
        let identity = self.runner.executor().identity();
        Some(self.inbox.key()?.with("backend", identity))
    }

    /// Asks the disk for what the cache lacks of a turn that has joined.
    pub(super) fn begin_restore(&mut self, at: usize) {
        let entry = &self.entries[at];
        let session = entry.turn().session;
        let Some(place) = session.and_then(|session| self.inbox.origin(session)) else {
            return;
        };
        let Some(pages) = self.inbox.pages().filter(|pages| pages.has(&place)) else {
            return;
        };
        let held = self.runner.len_of(entry.place());
        // The last token is run in any case.
        let wanted = entry.prompt().len().saturating_sub(1);
        let (Some(key), true) = (self.pages_key(), held + PAGE <= wanted) else {
            return;
        };
        // The disk reads before it writes on.
        self.interrupt_saving();
        let entry = &self.entries[at];
        let arrived = pages.load(Load {
            place,
            key,
            tokens: entry.prompt()[..wanted].to_vec(),
            said: entry.said().to_vec(),
            reuse: self.runner.reuse(),
            page_bytes: self.runner.page_bytes(),
            held,
            again: self.slices.cost(self.runner.rows()),
            wake: self.inbox.wake(),
        });
        self.restores.push(Restore {
            id: entry.id(),
            arrived,
            tokens: Vec::new(),
            next: held / PAGE,
            waits: None,
            since: Instant::now(),
        });
    }

    pub(super) fn is_restoring(&self, id: u64) -> bool {
        self.restores.iter().any(|restore| restore.id == id)
    }

    /// Takes what has come, of each turn a page at most. Tells whether there may be more.
    pub(super) fn take_arrived(&mut self) -> Result<bool, RunError> {
        let mut more = false;
        for index in (0..self.restores.len()).rev() {
            let restore = &mut self.restores[index];
            let waits = restore.waits.take().map(Arrived::Page);
            match waits.map_or_else(|| restore.arrived.try_recv(), Ok) {
                Ok(Arrived::Tokens(tokens)) => {
                    restore.tokens = tokens;
                    more = true;
                }
                Ok(Arrived::Page(bytes)) => {
                    let (id, next) = (restore.id, restore.next);
                    let entry = self.entries.iter().find(|entry| entry.id() == id);
                    let written = match entry.map(super::Entry::place) {
                        Some(at_entry) => self.runner.write_page(at_entry, next, &bytes)?,
                        None => true,
                    };
                    if written {
                        (restore.next, restore.since) = (next + 1, Instant::now());
                        self.inbox.progress().advance();
                    } else {
                        restore.waits = Some(bytes);
                    }
                    more = true;
                }
                Err(TryRecvError::Empty) if restore.since.elapsed() < PATIENCE => {}
                Err(_) => {
                    let restore = self.restores.remove(index);
                    self.restored(&restore)?;
                    more = true;
                }
            }
        }
        Ok(more)
    }

    /// All has come that will: the turn goes on after it.
    fn restored(&mut self, restore: &Restore) -> Result<(), RunError> {
        let of = |entry: &super::Entry| entry.id() == restore.id;
        let Some(at) = self.entries.iter().position(of) else {
            return Ok(());
        };
        let whole = restore.tokens.len().min(restore.next * PAGE);
        let entry = &mut self.entries[at];
        let at_entry = entry.place();
        if whole <= self.runner.len_of(at_entry) {
            return Ok(());
        }
        let sampling = entry.turn().options.sampling;
        let tokens = &restore.tokens[..whole];
        self.runner
            .restore(at_entry, tokens, sampling, entry.prompt())?;
        entry.restored(whole);
        crate::engine::observe::graph(self.inbox, &mut self.runner);
        self.bound(at).map(drop)
    }
}
