//! How pages change hands: who gets them for a turn, and who gives them up for that.

use std::collections::BTreeMap;

use super::change::Copied;
use super::{Kv, Owner, PAGE, SEQUENCES, Sequence, eviction};

impl Kv {
    /// Has a sequence so many pages, of which the first `cached` positions are those of `source`. Returns what is to be
    /// copied: the page that both begin alike and go on apart in.
    pub(super) fn take_over(
        &mut self,
        (id, user): (u64, u32),
        source: Option<u64>,
        cached: usize,
        pages: usize,
    ) -> Option<Copied> {
        let held = source.map_or(&[][..], |source| &self.sequences[&source].pages);
        let mut taken: Vec<usize> = held[..cached.div_ceil(PAGE)].to_vec();
        for page in &taken {
            self.pool.share(*page);
        }
        let before = self
            .sequences
            .get_mut(&id)
            .map(|one| std::mem::take(&mut one.pages));
        for page in before.into_iter().flatten() {
            self.pool.leave(page);
        }
        let mut copy = None;
        if !cached.is_multiple_of(PAGE)
            && let Some(from) = taken.last_mut()
        {
            // What else has it may have to give it up.
            while self.pool.is_shared(*from) && copy.is_none() {
                if let Some(to) = self.pool.take() {
                    self.pool.leave(*from);
                    copy = Some(Copied { from: *from, to });
                    *from = to;
                } else if !self.give_up(id, (user, pages)) {
                    break;
                }
            }
        }
        while taken.len() < pages {
            match self.pool.take() {
                Some(page) => taken.push(page),
                None if self.give_up(id, (user, pages)) => {}
                None => break,
            }
        }
        debug_assert!(taken.len() >= pages, "pages were counted before");
        self.sequences.entry(id).or_default().pages = taken;
        self.bound(id, user);
        copy
    }

    /// The entry that a sequence had last; else one that has none, or the one whose sequence was used least lately. None of a
    /// turn that runs.
    pub(super) fn entry_for(&self, id: u64) -> Option<usize> {
        let rank = |entry: &usize| {
            let sequence = self.entries[*entry].sequence;
            let used = sequence
                .and_then(|id| self.sequences.get(&id))
                .map(|one| one.used);
            (sequence != Some(id), used)
        };
        let free = (0..self.entries.len()).filter(|entry| !self.entries[*entry].keeps_pages());
        free.min_by_key(rank)
    }

    /// Gives up pages that a sequence holds and does not need, or else a sequence with pages. Returns whether there was one
    /// besides `but`, which is to have so many pages for its user, and those of turns that run.
    pub(super) fn give_up(&mut self, but: u64, wanted: (u32, usize)) -> bool {
        let idle = |id: u64| id != but && !self.runs(id);
        let mut all = self.sequences.iter().filter(|(id, _)| idle(**id));
        let untrimmed = all.find(|(_, one)| one.pages.len() > one.needed());
        if let Some(id) = untrimmed.map(|(id, _)| *id) {
            self.trim(id);
            return true;
        }
        let share = (self.held(wanted), self.pool.len());
        self.evict(share, |id, sequence| {
            id != but && !sequence.pages.is_empty()
        })
    }

    /// Forgets a sequence other than this one, which is a user's, where there are too many, however many pages each has.
    pub(super) fn bound(&mut self, id: u64, user: u32) {
        if self.sequences.len() > SEQUENCES {
            let mut each = BTreeMap::from([(user, 1)]);
            for (_, other) in self.sequences.iter().filter(|(other, _)| **other != id) {
                *each.entry(other.user).or_default() += 1;
            }
            self.evict((each, SEQUENCES), |other, _| other != id);
        }
    }

    /// Forgets the first to go, of those that may be forgotten and that no turn needs, where each user holds so much of all
    /// that there is. Returns whether there was one.
    fn evict(
        &mut self,
        (held, all_there_is): (BTreeMap<u32, usize>, usize),
        may: impl Fn(u64, &Sequence) -> bool,
    ) -> bool {
        let all = self.sequences.iter();
        let all = all.filter(|(id, one)| may(**id, one) && !self.runs(**id));
        let resting = all.map(|(id, one)| eviction::Resting {
            id: *id,
            user: one.user,
            owned: one.owner.is_some(),
            used: one.used,
        });
        let first = eviction::first(resting, &held, all_there_is);
        let Some(id) = first.map(|one| one.id) else {
            return false;
        };
        let owner = self.remove(id);
        self.lost.extend(owner);
        true
    }

    /// Takes a sequence out, whose pages are left to those that share them; tells whose it was.
    pub(super) fn remove(&mut self, id: u64) -> Option<Owner> {
        let Sequence { pages, owner, .. } = self.sequences.remove(&id)?;
        pages.into_iter().for_each(|page| self.pool.leave(page));
        owner
    }

    /// Pages of each user, with those that one wants.
    pub(super) fn held(&self, (user, wanted): (u32, usize)) -> BTreeMap<u32, usize> {
        let mut held = BTreeMap::from([(user, wanted)]);
        // What is shared is shared within a user, and counts once.
        let mut seen = vec![false; self.pool.len()];
        for sequence in self.sequences.values() {
            let pages = sequence.pages.iter();
            let theirs = pages.filter(|page| !std::mem::replace(&mut seen[**page], true));
            *held.entry(sequence.user).or_default() += theirs.count();
        }
        held.retain(|_, pages| *pages > 0);
        held
    }

    /// Gives back the pages beyond a sequence's tokens.
    pub(super) fn trim(&mut self, id: u64) {
        if let Some(sequence) = self.sequences.get_mut(&id) {
            let needed = sequence.needed().min(sequence.pages.len());
            let pages = sequence.pages.drain(needed..);
            pages.for_each(|page| self.pool.leave(page));
        }
    }
}
