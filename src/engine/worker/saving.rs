//! Saves the pages of idle sessions in the host's memory and on the disk, a page between two steps.
//!
//! The device copies each page while other work runs; the engine thread waits neither for it nor for the disk.

use std::sync::mpsc::TrySendError;
use std::time::Instant;

use super::state::Worker;
use super::unsaved::{Current, Delays, Destination, Idle, Tier, Unsaved};
use crate::engine::session::sessions::SessionId;
use crate::kv::{FIRST_IMAGE_ROW, Owner, PAGE, Resting};
use crate::kv_store::{Place, Rules, Save, Whose};
use crate::runner::RunError;

impl Worker<'_> {
    /// Stops saving the current session, to save it again later.
    pub(super) fn interrupt_saving(&mut self) {
        if let Some(current) = self.unsaved.current.take() {
            self.unsaved.retry(current.idle);
        }
        self.runner.forget_sent();
    }

    /// Notes that a session is idle, so that its pages are saved.
    pub(super) fn session_is_idle(&mut self, session: SessionId) {
        let saves = |rules: Rules| rules.bytes > 0 && rules.writes != Some(0);
        let on_disk = self
            .shared
            .pages()
            .is_some_and(|pages| saves(pages.rules()));
        let in_host = self.host_bytes() > 0;
        if !on_disk && !in_host {
            return;
        }
        let Some((whose, user)) = self.shared.sessions().pages_owner(session) else {
            return;
        };
        // The session may have had another id before it was closed and opened again.
        let before = self.unsaved.idle.extract_if(.., |one| one.whose == whose);
        for one in before.filter(|one| one.closed) {
            self.runner.release(one.owner);
        }
        let on_disk = on_disk && matches!(whose, Whose::Named(_));
        let tiers = [(Tier::Disk, on_disk), (Tier::Host, in_host)];
        for (tier, _) in tiers.into_iter().filter(|(_, saves)| *saves) {
            self.unsaved.idle.push(Idle {
                owner: Owner(session.0),
                user,
                whose: whose.clone(),
                tier,
                since: Instant::now(),
                closed: false,
            });
        }
    }

    /// Returns the bytes of pages that the host's memory may hold: none where the cache itself is in that memory.
    fn host_bytes(&self) -> u64 {
        let rules = self.shared.host();
        let is_other = !rules.discrete || !self.runner.uses_system_memory();
        if is_other { rules.bytes } else { 0 }
    }

    /// Drops pages from the host's memory as far as it holds more than it may.
    pub(super) fn shrink_host(&mut self) {
        let most = self.host_bytes();
        self.host.shrink(most, None);
    }

    fn delays(&self) -> Delays {
        let disk = self.shared.pages().map(|pages| pages.rules().rest);
        Delays {
            host: self.shared.host().rest,
            disk: disk.unwrap_or_default(),
        }
    }

    /// Forgets a closed session. One that is `persistent` can be opened again, so its pages are saved before.
    pub(super) fn forget(&mut self, owner: Owner, persistent: bool) {
        if persistent && self.unsaved.close(owner) {
            return;
        }
        self.host.delete(&Whose::Open(owner.0));
        self.unsaved.remove(owner);
        self.runner.release(owner);
    }

    /// Erases a deleted session, which has closed. Pages of the user that no session owns may be of it, so they go too.
    pub(super) fn erase(&mut self, place: &Place) {
        let whose = Whose::Named(place.clone());
        self.host.delete(&whose);
        let Unsaved { idle, current } = &mut self.unsaved;
        let gone = idle.extract_if(.., |one| one.whose == whose);
        let current = current.take_if(|one| one.idle.whose == whose);
        for one in gone.chain(current.map(|one| one.idle)) {
            self.runner.release(one.owner);
        }
        self.past.forget(place.user);
        self.runner.erase(place.user);
        if let Some(draft) = &mut self.draft {
            draft.erase(place.user);
        }
    }

    /// Returns when pages are to be saved next, if nothing happens before.
    pub(super) fn saving_due(&self) -> Option<Instant> {
        self.unsaved.due(self.delays())
    }

    /// Moves a page of a session that is due, if there is one.
    pub(super) fn save(&mut self) -> Result<(), RunError> {
        self.save_after(self.delays())
    }

    fn save_after(&mut self, delays: Delays) -> Result<(), RunError> {
        if self.unsaved.current.is_none()
            && let Some(idle) = self.unsaved.take_due(delays)
        {
            self.begin_saving(idle);
        }
        let Some(mut current) = self.unsaved.current.take() else {
            return Ok(());
        };
        let owner = current.idle.owner;
        let now = self.runner.resting(owner).map(|now| now.used);
        if now != Some(current.used) {
            match now {
                // The session was rewound: its other pages are still worth saving.
                Some(_) => self.unsaved.retry(current.idle),
                // A request uses the session, or it has lost its pages. It becomes idle again when a request ends.
                None => self.finish_saving(&current.idle),
            }
            return Ok(());
        }
        if let Some(page) = current.pages.get(current.asked) {
            let sent = self.runner.send_page(*page, current.used.1)?;
            current.asked += usize::from(sent);
        }
        if current.ready.is_none() {
            current.ready = self.runner.take_sent()?;
        }
        match (current.ready.take(), &mut current.to) {
            (None, _) => {}
            (Some(page), Destination::Host(filling)) => {
                filling.push(page);
                current.sent += 1;
            }
            (Some(page), Destination::Disk(to)) => match to.try_send(page) {
                Ok(()) => current.sent += 1,
                Err(TrySendError::Full(page)) => current.ready = Some(page),
                // The disk refused, and has reported it.
                Err(TrySendError::Disconnected(_)) => current.sent = current.pages.len(),
            },
        }
        if current.sent < current.pages.len() {
            self.unsaved.current = Some(current);
            return Ok(());
        }
        if let Destination::Host(filling) = current.to {
            let most = self.host_bytes();
            self.host.keep(filling, most);
        }
        self.finish_saving(&current.idle);
        Ok(())
    }

    /// Saves as many pages as there is time for before the process ends.
    pub(super) fn save_all(&mut self) -> Result<(), RunError> {
        let Some(pages) = self.shared.pages() else {
            return Ok(());
        };
        let until = Instant::now() + pages.rules().stop;
        self.save_on_disk(until, |_| false)?;
        self.unsaved.clear();
        pages.flush(until.saturating_duration_since(Instant::now()));
        Ok(())
    }

    /// Saves pages on the disk before their memory is released, until a request arrives, and no longer than a stop would.
    pub(super) fn save_before_release(&mut self) -> Result<(), RunError> {
        let Some(pages) = self.shared.pages() else {
            return Ok(());
        };
        let until = Instant::now() + pages.rules().stop;
        self.save_on_disk(until, |worker| !worker.queue.is_quiet())
    }

    /// Saves pages on the disk until `until`, or until `stops` returns true. Copies in the host's memory are not made any more.
    fn save_on_disk(
        &mut self,
        until: Instant,
        stops: impl Fn(&Self) -> bool,
    ) -> Result<(), RunError> {
        let is_in_host = |one: &Idle| one.tier == Tier::Host;
        self.unsaved.current.take_if(|one| is_in_host(&one.idle));
        self.unsaved.idle.retain(|one| !is_in_host(one));
        while Instant::now() < until && !stops(self) {
            self.save_after(Delays::default())?;
            match &self.unsaved.current {
                Some(current) if current.ready.is_some() => self.queue.wait_briefly(),
                None if self.unsaved.idle.is_empty() => break,
                _ => {}
            }
            self.shared.progress.advance();
        }
        Ok(())
    }

    fn begin_saving(&mut self, idle: Idle) {
        if self.runner.is_launched(idle.owner) {
            // Its last token is not in its pages yet.
            self.unsaved.retry(idle);
            return;
        }
        // Drops the pages of a session whose saving was interrupted.
        self.runner.forget_sent();
        let Some(now) = self.runner.resting(idle.owner) else {
            return self.finish_saving(&idle);
        };
        let (used, most) = (now.used, self.host_bytes());
        let pages = now.pages.clone();
        match self.destination(&idle, &now) {
            Some(to) => {
                let there = match &to {
                    Destination::Host(filling) => {
                        self.host.make_room(filling, most);
                        filling.pages()
                    }
                    Destination::Disk(_) => 0,
                };
                self.unsaved.current = Some(Current {
                    idle,
                    pages,
                    used,
                    asked: there,
                    sent: there,
                    ready: None,
                    to,
                });
            }
            None => self.finish_saving(&idle),
        }
    }

    /// Returns where the pages of a session go; `None` if there is nothing to save, or no room.
    fn destination(&self, idle: &Idle, now: &Resting<'_>) -> Option<Destination> {
        if now.tokens.len() < PAGE {
            return None;
        }
        // After a restart, other images have the same numbers.
        let is_image = |(token, _): &(u32, _)| *token >= FIRST_IMAGE_ROW;
        if idle.tier == Tier::Disk && now.tokens.iter().any(is_image) {
            return None;
        }
        let places: Vec<_> = now.pages.iter().map(|(place, _)| *place).collect();
        let (key, page_bytes) = (self.pages_key()?, self.runner.page_bytes());
        let whose = idle.whose.clone();
        match (idle.tier, whose) {
            (Tier::Host, whose) => {
                let (most, whose) = (self.host_bytes(), (whose, idle.user));
                let lacks = places.len();
                let sequence = (now.tokens, places);
                let layout = self.runner.layout();
                let layout = (&layout, page_bytes);
                let filling = self.host.fill(whose, key, sequence, layout, most)?;
                let lacks = (lacks - filling.pages()) * page_bytes;
                let fits = self.runner.has_system_memory(lacks as u64);
                fits.then_some(Destination::Host(filling))
            }
            (Tier::Disk, Whose::Named(place)) => {
                let to = self.shared.pages()?.save(Save {
                    place,
                    key,
                    tokens: now.tokens.to_vec(),
                    places,
                    page_bytes,
                    used: idle.since,
                    wake: self.queue.wake(),
                })?;
                Some(Destination::Disk(to))
            }
            (Tier::Disk, Whose::Open(_)) => None,
        }
    }

    /// Releases the pages of a session that is saved, or cannot be, if it has closed and no other tier waits for them.
    fn finish_saving(&mut self, idle: &Idle) {
        let mut others = self.unsaved.idle.iter();
        if idle.closed && !others.any(|one| one.owner == idle.owner) {
            self.runner.release(idle.owner);
        }
    }
}
