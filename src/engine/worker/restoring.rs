//! Restores the pages of a session's past requests from the host's memory or the disk, a page between two steps.

use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use super::restore::{PageSource, Restore};
use super::state::Worker;
use crate::engine::observe::observer;
use crate::kv::{PAGE, Wanted};
use crate::kv_store::{Asked, Key, Load};
use crate::runner::RunError;

/// How long a restore waits for the next page. Then the prompt is prefilled instead.
const PATIENCE: Duration = Duration::from_secs(5);

impl Worker<'_> {
    /// Returns the key of all that the content of pages depends on; `None` if it is unknown.
    pub(super) fn pages_key(&self) -> Option<Key> {
        let identity = self.runner.executor().identity();
        Some(self.shared.pages_key()?.with("backend", identity))
    }

    /// Requests the pages that a slot lacks of its prompt: from the host's memory, or else from the disk.
    pub(super) fn begin_restore(&mut self, slot: usize) {
        if !self.restore_from_host(slot) {
            self.restore_from_disk(slot);
        }
    }

    /// Returns whether the host's memory has pages of the prompt.
    fn restore_from_host(&mut self, slot: usize) -> bool {
        let Some(generation) = self.slots.get(slot) else {
            return false;
        };
        let request = generation.request();
        let Some(session) = request.session.filter(|_| self.host.bytes() > 0) else {
            return false;
        };
        let sources = self.shared.sessions().sources(session);
        let source = sources.into_iter().find(|one| self.host.has(one));
        let (Some(whose), Some(key)) = (source, self.pages_key()) else {
            return false;
        };
        let held = self.runner.len_of(slot);
        // The last token of a prompt always runs.
        let wanted = generation.prompt().len().saturating_sub(1);
        let asked = Asked {
            user: request.client.user,
            key: &key,
            prompt: Wanted {
                tokens: &generation.prompt()[..wanted],
                said: generation.said(),
            },
            reuse: self.runner.reuse(),
            page_bytes: self.runner.page_bytes(),
            layout: &self.runner.layout(),
            held,
            again: self.slices.cost(self.runner.rows()),
        };
        let measured = self.shared.host().measured;
        let Some(found) = self.host.find(&whose, &asked, measured) else {
            return false;
        };
        // Pages in the other direction would delay these.
        self.interrupt_saving();
        let bytes = (found.pages.len() * self.runner.page_bytes()) as u64;
        self.restores.push(Restore {
            slot,
            from: PageSource::Host(found.pages.into(), bytes, Instant::now()),
            tokens: found.tokens,
            places: found.places,
            arrived: 0,
            waits: None,
            since: Instant::now(),
        });
        true
    }

    fn restore_from_disk(&mut self, slot: usize) {
        let Some(generation) = self.slots.get(slot) else {
            return;
        };
        let session = generation.request().session;
        let place = session.and_then(|session| self.shared.sessions().origin(session));
        let Some(place) = place else {
            return;
        };
        let Some(pages) = self.shared.pages().filter(|pages| pages.has(&place)) else {
            return;
        };
        let held = self.runner.len_of(slot);
        let wanted = generation.prompt().len().saturating_sub(1);
        let (Some(key), true) = (self.pages_key(), held + PAGE <= wanted) else {
            return;
        };
        let load = Load {
            place,
            key,
            tokens: generation.prompt()[..wanted].to_vec(),
            said: generation.said().to_vec(),
            reuse: self.runner.reuse(),
            page_bytes: self.runner.page_bytes(),
            layout: self.runner.layout(),
            held,
            again: self.slices.cost(self.runner.rows()),
            wake: self.queue.wake(),
        };
        // The disk reads before it continues to write.
        self.interrupt_saving();
        self.restores.push(Restore {
            slot,
            from: PageSource::Disk(pages.load(load)),
            tokens: Vec::new(),
            places: Vec::new(),
            arrived: 0,
            waits: None,
            since: Instant::now(),
        });
    }

    pub(super) fn is_restoring(&self, slot: usize) -> bool {
        self.restores.iter().any(|restore| restore.slot == slot)
    }

    /// Takes at most one arrived page of each slot. Returns whether more may have arrived.
    pub(super) fn take_arrived(&mut self) -> Result<bool, RunError> {
        let mut more = false;
        for index in (0..self.restores.len()).rev() {
            let restore = &mut self.restores[index];
            match restore.next_page() {
                Ok(None) => more = true,
                Ok(Some(page)) => {
                    let (slot, arrived) = (restore.slot, restore.arrived);
                    // The places arrive before the first page.
                    let Some(place) = restore.places.get(arrived).copied() else {
                        let restore = self.restores.remove(index);
                        self.finish_restore(&restore)?;
                        continue;
                    };
                    if self.runner.write_page(slot, place, &page)? {
                        (restore.arrived, restore.since) = (arrived + 1, Instant::now());
                        self.shared.progress.advance();
                    } else {
                        restore.waits = Some(page);
                    }
                    more = true;
                }
                Err(TryRecvError::Empty) if restore.since.elapsed() < PATIENCE => {}
                Err(_) => {
                    let restore = self.restores.remove(index);
                    self.finish_restore(&restore)?;
                    more = true;
                }
            }
        }
        Ok(more)
    }

    /// Lets the generation continue after the pages that have arrived.
    fn finish_restore(&mut self, restore: &Restore) -> Result<(), RunError> {
        let slot = restore.slot;
        let Some(generation) = self.slots.get_mut(slot) else {
            return Ok(());
        };
        if let PageSource::Host(_, bytes, begun) = restore.from {
            self.host.measure(bytes, begun.elapsed());
        }
        let (places, positions) = (&restore.places, restore.tokens.len());
        let layout = self.runner.layout();
        let reached = layout.reached(places, restore.arrived, positions);
        let prompt = generation.prompt();
        let restored = layout.whole(|at| prompt.get(at).copied(), reached);
        // Where layers see windows, the pages serve one position alone.
        let serves = restored == reached || layout.is_plain();
        if !serves || restored <= self.runner.len_of(slot) {
            return Ok(());
        }
        let sampling = generation.request().options.sampling;
        let tokens = &restore.tokens[..restored];
        let continued = (self.runner).restore(slot, tokens, sampling, generation.prompt());
        if let Err(error) = continued {
            return self.fail(slot, error);
        }
        generation.restored_to(restored);
        observer::report_graph_events(self.shared, &mut self.runner);
        self.guide(slot).map(drop)
    }
}
