//! Assigns pages to turns, and evicts sequences that use them.

use std::collections::BTreeMap;

use super::change::Copied;
use super::plan::Plan;
use super::tables::Tables;
use super::{Kv, Owner, SEQUENCES, Sequence, eviction};

impl Kv {
    /// Gives a sequence the pages of a plan. Returns the copies of the shared pages that it and other sequences would
    /// write to.
    pub(super) fn take_over(&mut self, (id, user): (u64, u32), plan: &Plan) -> Vec<Copied> {
        let kept = plan.kept();
        let of_tables = kept.iter().map(|(_, page)| *page);
        for page in of_tables.chain(plan.kept_pieces()) {
            self.pool.share(page);
        }
        let before = self.sequences.get_mut(&id).map(|one| {
            let pages = one.pages();
            one.checkpoints.clear();
            one.tables = Tables::default();
            pages
        });
        for page in before.unwrap_or_default() {
            self.pool.leave(page);
        }
        let wanted = (user, plan.new + kept.len());
        let mut copies = Vec::new();
        let written = kept.iter().filter(|(at, _)| *at >= plan.whole);
        for from in written.map(|(_, page)| *page) {
            // Another holder of the page may have to give it up.
            while self.pool.is_shared(from) {
                if let Some(to) = self.pool.take() {
                    self.pool.leave(from);
                    copies.push(Copied { from, to });
                    break;
                } else if !self.give_up(id, wanted) {
                    break;
                }
            }
        }
        let mut new = Vec::with_capacity(plan.new);
        while new.len() < plan.new {
            match self.pool.take() {
                Some(page) => new.push(page),
                None if self.give_up(id, wanted) => {}
                None => break,
            }
        }
        debug_assert!(new.len() >= plan.new, "pages were counted before");
        let sequence = self.sequences.entry(id).or_default();
        sequence.tables = plan.tables(&copies, &new);
        sequence.checkpoints = plan.checkpoints(&new);
        self.bound(id, user);
        copies
    }

    /// The last slot of a sequence, or else an unused slot, or the one whose sequence was least recently used. Slots
    /// with a running turn are excluded.
    pub(super) fn slot_for(&self, id: u64) -> Option<usize> {
        let rank = |slot: &usize| {
            let sequence = self.slots[*slot].sequence;
            let used = sequence
                .and_then(|id| self.sequences.get(&id))
                .map(|one| one.used);
            (sequence != Some(id), used)
        };
        let free = (0..self.slots.len()).filter(|slot| !self.slots[*slot].keeps_pages());
        free.min_by_key(rank)
    }

    /// Frees pages that an idle sequence does not need, or else evicts a sequence. `but` is the sequence that needs
    /// pages for its user. Returns whether any could be freed.
    pub(super) fn give_up(&mut self, but: u64, wanted: (u32, usize)) -> bool {
        let idle = |id: u64| id != but && !self.runs(id);
        let mut all = self.sequences.iter().filter(|(id, _)| idle(**id));
        let untrimmed = all.find(|(_, one)| one.tables.len() > one.needed());
        if let Some(id) = untrimmed.map(|(id, _)| *id) {
            self.trim(id);
            return true;
        }
        let share = (self.held(wanted), self.pool.len());
        self.evict(share, |id, sequence| {
            id != but && sequence.used_pages().next().is_some()
        })
    }

    /// Evicts sequences beyond the limit on their number, but not sequence `id` of `user`.
    pub(super) fn bound(&mut self, id: u64, user: u32) {
        if self.sequences.len() > SEQUENCES {
            let mut each = BTreeMap::from([(user, 1)]);
            for (_, other) in self.sequences.iter().filter(|(other, _)| **other != id) {
                *each.entry(other.user).or_default() += 1;
            }
            self.evict((each, SEQUENCES), |other, _| other != id);
        }
    }

    /// Evicts one sequence that is allowed and that no turn needs. `held` says how much each user has. Returns whether
    /// there was one.
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
        self.evictions += 1;
        self.lost.extend(owner);
        true
    }

    /// Evicts all sequences that no turn needs, because the system lacks memory.
    pub fn evict_idle(&mut self) {
        let all = self.sequences.keys().copied();
        let idle: Vec<_> = all.filter(|id| !self.runs(*id)).collect();
        for id in idle {
            let owner = self.remove(id);
            self.evictions += 1;
            self.lost.extend(owner);
        }
        self.moved = true;
    }

    /// Returns the number of sequences that were evicted so that others have room.
    #[must_use]
    pub fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Removes a sequence and returns its owner. Pages that others share stay.
    pub(super) fn remove(&mut self, id: u64) -> Option<Owner> {
        let sequence = self.sequences.remove(&id)?;
        let pages = sequence.pages();
        pages.into_iter().for_each(|page| self.pool.leave(page));
        sequence.owner
    }

    /// The pages of each user, including those that one needs.
    pub(super) fn held(&self, (user, wanted): (u32, usize)) -> BTreeMap<u32, usize> {
        let mut held = BTreeMap::from([(user, wanted)]);
        // Pages are shared within a user only, and count once.
        let mut seen = vec![false; self.pool.len()];
        for sequence in self.sequences.values() {
            let pages = sequence.used_pages();
            let theirs = pages.filter(|page| !std::mem::replace(&mut seen[*page], true));
            *held.entry(sequence.user).or_default() += theirs.count();
        }
        held.retain(|_, pages| *pages > 0);
        held
    }

    /// Frees the pages that a sequence's tokens do not need.
    pub(super) fn trim(&mut self, id: u64) {
        if let Some(sequence) = self.sequences.get_mut(&id) {
            let pages = sequence.trim(&self.layout);
            pages.into_iter().for_each(|page| self.pool.leave(page));
        }
    }
}
