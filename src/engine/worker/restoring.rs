//! What is kept of a session in the host's memory, or on the disk, comes back to its pages, one between two steps, when it is asked
//! again. Its turn has joined meanwhile and runs no step.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use super::Worker;
use crate::engine::generation::state::Generation;
use crate::engine::observe::observer;
use crate::kv::{Family, PAGE, Wanted};
use crate::kv_store::{Arrived, Asked, Key, Load, Page};
use crate::runner::RunError;

/// A disk that gives nothing for so long is not waited for: its text is read again.
const PATIENCE: Duration = Duration::from_secs(5);

/// A turn whose pages are on their way.
#[derive(Debug)]
pub(super) struct Restore {
    pub(super) id: u64,
    from: Source,
    /// What all of its pages will hold.
    tokens: Vec<(u32, Family)>,
    /// The next page that comes.
    next: usize,
    /// That page, where too many are on their way into the cache.
    waits: Option<Page>,
    since: Instant,
}

/// Where pages come from.
#[derive(Debug)]
enum Source {
    /// All of them, in their order, with the bytes of all and when they were asked for.
    Host(VecDeque<Page>, u64, Instant),
    Disk(Receiver<Arrived>),
}

impl Restore {
    /// The next page, if there is one yet. The tokens of all come before the first.
    fn next(&mut self) -> Result<Option<Page>, TryRecvError> {
        if let Some(page) = self.waits.take() {
            return Ok(Some(page));
        }
        match &mut self.from {
            Source::Host(pages, ..) => {
                let next = pages.pop_front().ok_or(TryRecvError::Disconnected);
                next.map(Some)
            }
            Source::Disk(arrived) => Ok(match arrived.try_recv()? {
                Arrived::Tokens(tokens) => {
                    self.tokens = tokens;
                    None
                }
                Arrived::Page(bytes) => Some(bytes.into()),
            }),
        }
    }
}

impl Worker<'_> {
    /// What pages depend on now.
    pub(super) fn pages_key(&self) -> Option<Key> {
        let identity = self.runner.executor().identity();
        Some(self.inbox.key()?.with("backend", identity))
    }

    /// Asks for what the cache lacks of a turn that has joined: the host's memory first, then the disk.
    pub(super) fn begin_restore(&mut self, at: usize) {
        if !self.restores_from_host(at) {
            self.restore_from_disk(at);
        }
    }

    /// Tells whether something comes back from there.
    fn restores_from_host(&mut self, at: usize) -> bool {
        let generation = &self.generations[at];
        let Some(session) = generation
            .request()
            .session
            .filter(|_| self.host.bytes() > 0)
        else {
            return false;
        };
        let sources = self.inbox.sources(session);
        let (Some(whose), Some(key)) = (
            sources.into_iter().find(|one| self.host.has(one)),
            self.pages_key(),
        ) else {
            return false;
        };
        let held = self.runner.len_of(generation.slot());
        let wanted = generation.prompt().len().saturating_sub(1);
        let asked = Asked {
            user: generation.request().client.user,
            key: &key,
            prompt: Wanted {
                tokens: &generation.prompt()[..wanted],
                said: generation.said(),
            },
            reuse: self.runner.reuse(),
            page_bytes: self.runner.page_bytes(),
            held,
            again: self.slices.cost(self.runner.rows()),
        };
        let measured = self.inbox.host().measured;
        let Some(found) = self.host.find(&whose, &asked, measured) else {
            return false;
        };
        let id = generation.id();
        // Pages that are on their way there would be in the way.
        self.interrupt_saving();
        let bytes = (found.pages.len() * self.runner.page_bytes()) as u64;
        self.restores.push(Restore {
            id,
            from: Source::Host(found.pages.into(), bytes, Instant::now()),
            tokens: found.tokens,
            next: held / PAGE,
            waits: None,
            since: Instant::now(),
        });
        true
    }

    fn restore_from_disk(&mut self, at: usize) {
        let generation = &self.generations[at];
        let session = generation.request().session;
        let Some(place) = session.and_then(|session| self.inbox.origin(session)) else {
            return;
        };
        let Some(pages) = self.inbox.pages().filter(|pages| pages.has(&place)) else {
            return;
        };
        let held = self.runner.len_of(generation.slot());
        // The last token is run in any case.
        let wanted = generation.prompt().len().saturating_sub(1);
        let (Some(key), true) = (self.pages_key(), held + PAGE <= wanted) else {
            return;
        };
        // The disk reads before it writes on.
        self.interrupt_saving();
        let generation = &self.generations[at];
        let arrived = pages.load(Load {
            place,
            key,
            tokens: generation.prompt()[..wanted].to_vec(),
            said: generation.said().to_vec(),
            reuse: self.runner.reuse(),
            page_bytes: self.runner.page_bytes(),
            held,
            again: self.slices.cost(self.runner.rows()),
            wake: self.inbox.wake(),
        });
        self.restores.push(Restore {
            id: generation.id(),
            from: Source::Disk(arrived),
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
            match restore.next() {
                Ok(None) => more = true,
                Ok(Some(bytes)) => {
                    let (id, next) = (restore.id, restore.next);
                    let generation = self
                        .generations
                        .iter()
                        .find(|generation| generation.id() == id);
                    let written = match generation.map(Generation::slot) {
                        Some(slot) => self.runner.write_page(slot, next, &bytes)?,
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
        let of = |generation: &Generation| generation.id() == restore.id;
        let Some(at) = self.generations.iter().position(of) else {
            return Ok(());
        };
        if let Source::Host(_, bytes, begun) = restore.from {
            self.host.measure(bytes, begun.elapsed());
        }
        let whole = restore.tokens.len().min(restore.next * PAGE);
        let generation = &mut self.generations[at];
        let slot = generation.slot();
        if whole <= self.runner.len_of(slot) {
            return Ok(());
        }
        let sampling = generation.request().options.sampling;
        let tokens = &restore.tokens[..whole];
        self.runner
            .restore(slot, tokens, sampling, generation.prompt())?;
        generation.restored(whole);
        observer::graph(self.inbox, &mut self.runner);
        self.bound(at).map(drop)
    }
}
