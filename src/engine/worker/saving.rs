//! Sessions that rest go to the disk, a page between two steps: the engine thread has it copied, and waits for nothing.

use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::{Duration, Instant};

use super::Worker;
use crate::engine::SessionId;
use crate::engine::runner::RunError;
use crate::kv::{Owner, PAGE};
use crate::kv_store::{Place, Rules, Save};

/// Sessions whose pages are not on the disk as they are, and the one whose pages are on their way.
#[derive(Debug, Default)]
pub(super) struct Saving {
    resting: Vec<Resting>,
    current: Option<Current>,
}

#[derive(Debug)]
struct Resting {
    owner: Owner,
    place: Place,
    since: Instant,
    /// Whether the engine forgets it when it is on the disk.
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
    to: SyncSender<Vec<u8>>,
}

impl Saving {
    pub(super) fn is_empty(&self) -> bool {
        self.resting.is_empty() && self.current.is_none()
    }

    /// When there is something to do next, but for what the disk tells.
    fn due(&self, rest: Duration) -> Option<Instant> {
        match &self.current {
            Some(current) => current.ready.is_none().then(|| Instant::now() + COPY),
            None => self.resting.iter().map(|one| one.since + rest).min(),
        }
    }

    /// What has changed meanwhile is written later, unless it rests anew already.
    fn rest_again(&mut self, resting: Resting) {
        if !self.resting.iter().any(|one| one.place == resting.place) {
            self.resting.push(resting);
        }
    }

    /// Another model's pages are of no use.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// A session is forgotten once it is on the disk; tells whether it is on its way there.
    fn leaves(&mut self, owner: Owner) -> bool {
        let current = self.current.as_mut().map(|one| &mut one.resting);
        let mut all = self.resting.iter_mut().chain(current);
        let one = all.find(|one| one.owner == owner);
        one.is_some_and(|one| {
            one.leaves = true;
            true
        })
    }

    fn remove(&mut self, owner: Owner) {
        self.current.take_if(|one| one.resting.owner == owner);
        self.resting.retain(|one| one.owner != owner);
    }

    /// The next that has rested so long: the last one first, which is the likeliest to be asked again.
    fn take(&mut self, rest: Duration) -> Option<Resting> {
        let rested = |one: &Resting| one.since.elapsed() >= rest;
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
        if !self.inbox.pages().is_some_and(|pages| keeps(pages.rules())) {
            return;
        }
        let Some(place) = self.inbox.place(session) else {
            return;
        };
        // What was known of it before is over, also by another number.
        let before = self.saving.resting.extract_if(.., |one| one.place == place);
        for one in before.filter(|one| one.leaves) {
            self.runner.release(one.owner);
        }
        self.saving.resting.push(Resting {
            owner: Owner(session.0),
            place,
            since: Instant::now(),
            leaves: false,
        });
    }

    /// A session has closed; `kept` says that it can be opened again.
    pub(super) fn forget(&mut self, owner: Owner, kept: bool) {
        if kept && self.saving.leaves(owner) {
            return;
        }
        self.saving.remove(owner);
        self.runner.release(owner);
    }

    /// A session was deleted, and has closed. What is nobody's of its user may be of it, from when it was open before.
    pub(super) fn erase(&mut self, place: &Place) {
        let Saving { resting, current } = &mut self.saving;
        let gone = resting.extract_if(.., |one| one.place == *place);
        let current = current.take_if(|one| one.resting.place == *place);
        for one in gone.chain(current.map(|one| one.resting)) {
            self.runner.release(one.owner);
        }
        self.runner.erase(place.user);
    }

    /// When pages are to be looked after, if nothing happens before.
    pub(super) fn saving_due(&self) -> Option<Instant> {
        let pages = self.inbox.pages()?;
        self.saving.due(pages.rules().rest)
    }

    /// Moves a page of what has rested so long, if there is one.
    pub(super) fn save(&mut self, rest: Duration) -> Result<(), RunError> {
        if self.saving.current.is_none()
            && let Some(resting) = self.saving.take(rest)
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
        match current.ready.take().map(|page| current.to.try_send(page)) {
            None => {}
            Some(Ok(())) => current.sent += 1,
            Some(Err(TrySendError::Full(page))) => current.ready = Some(page),
            // The disk refused: it has told so.
            Some(Err(TrySendError::Disconnected(_))) => current.sent = current.pages.len(),
        }
        if current.sent == current.pages.len() {
            self.drop_resting(&current.resting);
        } else {
            self.saving.current = Some(current);
        }
        Ok(())
    }

    /// Saves what there is time for before the end.
    pub(super) fn save_all(&mut self) -> Result<(), RunError> {
        let Some(pages) = self.inbox.pages() else {
            return Ok(());
        };
        let until = Instant::now() + pages.rules().stop;
        while Instant::now() < until {
            self.save(Duration::ZERO)?;
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
        let current = self.sending(&resting);
        match current {
            Some((pages, used, to)) => {
                self.saving.current = Some(Current {
                    resting,
                    pages,
                    used,
                    asked: 0,
                    sent: 0,
                    ready: None,
                    to,
                });
            }
            None => self.drop_resting(&resting),
        }
    }

    /// Its pages and where they are to be sent; `None` if there is nothing to write, or no room.
    #[allow(clippy::type_complexity)] // it is taken apart at once
    fn sending(
        &self,
        resting: &Resting,
    ) -> Option<(Vec<usize>, (u64, usize), SyncSender<Vec<u8>>)> {
        let now = self.runner.resting(resting.owner)?;
        if now.tokens.len() < PAGE {
            return None;
        }
        let to = self.inbox.pages()?.save(Save {
            place: resting.place.clone(),
            key: self.pages_key()?,
            tokens: now.tokens.to_vec(),
            page_bytes: self.runner.page_bytes(),
            used: resting.since,
            wake: self.inbox.wake(),
        })?;
        Some((now.pages.to_vec(), now.used, to))
    }

    fn drop_resting(&mut self, resting: &Resting) {
        if resting.leaves {
            self.runner.release(resting.owner);
        }
    }
}
