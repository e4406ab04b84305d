//! Sessions that rest go to the disk, and to the host's memory, a page between two steps: the engine thread has it copied, and
//! waits for nothing.

use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::{Duration, Instant};

use super::Worker;
use crate::engine::session::sessions::SessionId;
use crate::kv::{Owner, PAGE, Resting as Held};
use crate::kv_store::{Filling, Place, Rules, Save, Whose};
use crate::runner::RunError;

/// Sessions whose pages are not where they are to be as they are, and the one whose pages are on their way.
#[derive(Debug, Default)]
pub(super) struct Saving {
    resting: Vec<Resting>,
    current: Option<Current>,
}

/// Where pages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tier {
    Host,
    Disk,
}

/// How long sessions rest before their pages go there.
#[derive(Clone, Copy, Debug, Default)]
struct Rests {
    host: Duration,
    disk: Duration,
}

impl Rests {
    const fn before(self, tier: Tier) -> Duration {
        match tier {
            Tier::Host => self.host,
            Tier::Disk => self.disk,
        }
    }
}

#[derive(Debug)]
struct Resting {
    owner: Owner,
    user: u32,
    whose: Whose,
    tier: Tier,
    since: Instant,
    /// Whether the engine forgets it when it is there.
    leaves: bool,
}

/// How soon the device is asked again for a page that it copies, where nothing else happens.
const COPY: Duration = Duration::from_micros(200);

#[derive(Debug)]
struct Current {
    resting: Resting,
    /// As they are numbered, until something changes the sequence.
    pages: Vec<usize>,
    used: (u64, usize),
    /// How many of them the device was asked for.
    asked: usize,
    /// How many of these were handed over.
    sent: usize,
    /// A page that is to be sent next.
    ready: Option<Vec<u8>>,
    to: Destination,
}

#[derive(Debug)]
enum Destination {
    Host(Filling),
    Disk(SyncSender<Vec<u8>>),
}

impl Saving {
    pub(super) fn is_empty(&self) -> bool {
        self.resting.is_empty() && self.current.is_none()
    }

    /// When there is something to do next, but for what the disk tells.
    fn due(&self, rests: Rests) -> Option<Instant> {
        let due = |one: &Resting| one.since + rests.before(one.tier);
        match &self.current {
            Some(current) => current.ready.is_none().then(|| Instant::now() + COPY),
            None => self.resting.iter().map(due).min(),
        }
    }

    /// What has changed meanwhile is written later, unless it rests anew already.
    fn rest_again(&mut self, resting: Resting) {
        let alike = |one: &Resting| (&one.whose, one.tier) == (&resting.whose, resting.tier);
        if !self.resting.iter().any(alike) {
            self.resting.push(resting);
        }
    }

    /// Another model's pages are of no use.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// A session is forgotten once it is where it is to be; tells whether it is on its way there.
    fn leaves(&mut self, owner: Owner) -> bool {
        let current = self.current.as_mut().map(|one| &mut one.resting);
        let all = self.resting.iter_mut().chain(current);
        let all = all.filter(|one| one.owner == owner);
        all.map(|one| one.leaves = true).count() > 0
    }

    fn remove(&mut self, owner: Owner) {
        self.current.take_if(|one| one.resting.owner == owner);
        self.resting.retain(|one| one.owner != owner);
    }

    /// The next that has rested long enough: the last one first, which is the likeliest to be asked again.
    fn take(&mut self, rests: Rests) -> Option<Resting> {
        let now = Instant::now();
        let rested = |one: &Resting| now - one.since >= rests.before(one.tier);
        let last = self.resting.iter().rposition(rested)?;
        Some(self.resting.remove(last))
    }
}

impl Worker<'_> {
    /// What is on its way is not written; it comes again.
    pub(super) fn interrupt_saving(&mut self) {
        if let Some(current) = self.saving.current.take() {
            self.saving.rest_again(current.resting);
        }
        self.runner.forget_sent();
    }

    /// A turn of a session has ended.
    pub(super) fn rests(&mut self, session: SessionId) {
        let keeps = |rules: Rules| rules.bytes > 0 && rules.writes != Some(0);
        let on_disk = self.inbox.pages().is_some_and(|pages| keeps(pages.rules()));
        let in_host = self.host_bytes() > 0;
        if !on_disk && !in_host {
            return;
        }
        let Some((whose, user)) = self.inbox.whose(session) else {
            return;
        };
        // What was known of it before is over, also by another number.
        let before = self.saving.resting.extract_if(.., |one| one.whose == whose);
        for one in before.filter(|one| one.leaves) {
            self.runner.release(one.owner);
        }
        let on_disk = on_disk && matches!(whose, Whose::Named(_));
        let tiers = [(Tier::Disk, on_disk), (Tier::Host, in_host)];
        for (tier, _) in tiers.into_iter().filter(|(_, is_kept)| *is_kept) {
            self.saving.resting.push(Resting {
                owner: Owner(session.0),
                user,
                whose: whose.clone(),
                tier,
                since: Instant::now(),
                leaves: false,
            });
        }
    }

    /// Bytes of pages that may be kept in the host's memory, where they are not there in any case.
    fn host_bytes(&self) -> u64 {
        let rules = self.inbox.host();
        let is_other = !rules.discrete || !self.runner.uses_system_memory();
        if is_other { rules.bytes } else { 0 }
    }

    /// Keeps no more pages in the host's memory than may be by now.
    pub(super) fn shrink_host(&mut self) {
        let most = self.host_bytes();
        self.host.shrink(most, None);
    }

    fn rests_before(&self) -> Rests {
        let disk = self.inbox.pages().map(|pages| pages.rules().rest);
        Rests {
            host: self.inbox.host().rest,
            disk: disk.unwrap_or_default(),
        }
    }

    /// A session has closed; `kept` says that it can be opened again.
    pub(super) fn forget(&mut self, owner: Owner, kept: bool) {
        if kept && self.saving.leaves(owner) {
            return;
        }
        self.host.delete(&Whose::Open(owner.0));
        self.saving.remove(owner);
        self.runner.release(owner);
    }

    /// A session was deleted, and has closed. What is nobody's of its user may be of it, from when it was open before.
    pub(super) fn erase(&mut self, place: &Place) {
        let whose = Whose::Named(place.clone());
        self.host.delete(&whose);
        let Saving { resting, current } = &mut self.saving;
        let gone = resting.extract_if(.., |one| one.whose == whose);
        let current = current.take_if(|one| one.resting.whose == whose);
        for one in gone.chain(current.map(|one| one.resting)) {
            self.runner.release(one.owner);
        }
        self.runner.erase(place.user);
    }

    /// When pages are to be looked after, if nothing happens before.
    pub(super) fn saving_due(&self) -> Option<Instant> {
        self.saving.due(self.rests_before())
    }

    /// Moves a page of what has rested long enough, if there is one.
    pub(super) fn save(&mut self) -> Result<(), RunError> {
        self.save_after(self.rests_before())
    }

    fn save_after(&mut self, rests: Rests) -> Result<(), RunError> {
        if self.saving.current.is_none()
            && let Some(resting) = self.saving.take(rests)
        {
            self.begin_saving(resting);
        }
        let Some(mut current) = self.saving.current.take() else {
            return Ok(());
        };
        let owner = current.resting.owner;
        let now = self.runner.resting(owner).map(|now| now.used);
        if now != Some(current.used) {
            match now {
                // Some of it was taken back: the rest is still worth its pages.
                Some(_) => self.saving.rest_again(current.resting),
                // A turn that has begun rests again when it ends; what has lost its pages has none.
                None => self.drop_resting(&current.resting),
            }
            return Ok(());
        }
        if let Some(page) = current.pages.get(current.asked) {
            let positions = current.used.1 - current.asked * PAGE;
            current.asked += usize::from(self.runner.send_page(*page, positions)?);
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
                // The disk refused: it has told so.
                Err(TrySendError::Disconnected(_)) => current.sent = current.pages.len(),
            },
        }
        if current.sent < current.pages.len() {
            self.saving.current = Some(current);
            return Ok(());
        }
        if let Destination::Host(filling) = current.to {
            let most = self.host_bytes();
            self.host.keep(filling, most);
        }
        self.drop_resting(&current.resting);
        Ok(())
    }

    /// Saves what there is time for before the end.
    pub(super) fn save_all(&mut self) -> Result<(), RunError> {
        let Some(pages) = self.inbox.pages() else {
            return Ok(());
        };
        let until = Instant::now() + pages.rules().stop;
        // What is in memory ends with it.
        let is_in_host = |one: &Resting| one.tier == Tier::Host;
        self.saving.current.take_if(|one| is_in_host(&one.resting));
        self.saving.resting.retain(|one| !is_in_host(one));
        while Instant::now() < until {
            self.save_after(Rests::default())?;
            match &self.saving.current {
                Some(current) if current.ready.is_some() => self.inbox.rest(),
                None if self.saving.resting.is_empty() => break,
                _ => {}
            }
            self.inbox.progress().advance();
        }
        self.saving.clear();
        pages.flush(until.saturating_duration_since(Instant::now()));
        Ok(())
    }

    fn begin_saving(&mut self, resting: Resting) {
        if self.runner.is_launched(resting.owner) {
            // Its last token is on its way to its pages.
            self.saving.rest_again(resting);
            return;
        }
        // This has come from one that was given up.
        self.runner.forget_sent();
        let Some(now) = self.runner.resting(resting.owner) else {
            return self.drop_resting(&resting);
        };
        let (pages, used, most) = (now.pages.to_vec(), now.used, self.host_bytes());
        match self.destination(&resting, &now) {
            Some(to) => {
                let there = match &to {
                    Destination::Host(filling) => {
                        self.host.make_room(filling, most);
                        filling.pages()
                    }
                    Destination::Disk(_) => 0,
                };
                self.saving.current = Some(Current {
                    resting,
                    pages,
                    used,
                    asked: there,
                    sent: there,
                    ready: None,
                    to,
                });
            }
            None => self.drop_resting(&resting),
        }
    }

    /// Where pages of what a session holds now are to be sent; `None` if there is nothing to keep, or no room.
    fn destination(&self, resting: &Resting, now: &Held<'_>) -> Option<Destination> {
        if now.tokens.len() < PAGE {
            return None;
        }
        let (key, page_bytes) = (self.pages_key()?, self.runner.page_bytes());
        let whose = resting.whose.clone();
        match (resting.tier, whose) {
            (Tier::Host, whose) => {
                let (most, whose) = (self.host_bytes(), (whose, resting.user));
                let filling = self.host.fill(whose, key, now.tokens, page_bytes, most)?;
                let lacks = (now.pages.len() - filling.pages()) * page_bytes;
                let may = self.runner.has_system_memory(lacks as u64);
                may.then_some(Destination::Host(filling))
            }
            (Tier::Disk, Whose::Named(place)) => {
                let to = self.inbox.pages()?.save(Save {
                    place,
                    key,
                    tokens: now.tokens.to_vec(),
                    page_bytes,
                    used: resting.since,
                    wake: self.inbox.wake(),
                })?;
                Some(Destination::Disk(to))
            }
            (Tier::Disk, Whose::Open(_)) => None,
        }
    }

    /// A session is where it was to be, or cannot be: if it leaves, and is to go nowhere else, its pages serve others.
    fn drop_resting(&mut self, resting: &Resting) {
        let mut others = self.saving.resting.iter();
        if resting.leaves && !others.any(|one| one.owner == resting.owner) {
            self.runner.release(resting.owner);
        }
    }
}
