//! Predicts whether a turn fits, without starting it.

use std::collections::HashSet;

use super::plan::Plan;
use super::prompt::Wanted;
use super::{Kv, Sequence};

impl Kv {
    /// Whether a user's turn of `positions` could begin if the `leaving` slots were freed.
    ///
    /// A slot and enough pages are needed, after evicting all that no turn needs. Pages without memory count unless an
    /// allocation was refused. Pages shared with running turns count once.
    #[must_use]
    pub fn has_room(
        &self,
        (user, prompt): (u32, Wanted<'_>),
        positions: usize,
        leaving: &[usize],
    ) -> bool {
        let pages = if self.refused {
            self.pool.allocated()
        } else {
            self.pool.len()
        };
        let fits = |source| {
            let plan = self.plan(source, (prompt.tokens.len(), 0), positions, true);
            self.fits(&plan, leaving, pages)
        };
        fits(None)
            || self
                .shared_with_running(user, prompt, leaving)
                .is_some_and(|source| fits(Some(source)))
    }

    /// The pages that a user's running turns hold, each counted once, and those that another turn would add.
    #[must_use]
    pub fn pages_of_user(
        &self,
        (user, prompt): (u32, Wanted<'_>),
        positions: usize,
    ) -> (usize, usize) {
        let runs = self
            .sequences
            .iter()
            .filter(|(id, one)| one.user == user && self.runs(**id));
        let theirs: HashSet<_> = runs.flat_map(|(_, one)| one.used_pages()).collect();
        let source = self.shared_with_running(user, prompt, &[]);
        let plan = self.plan(source, (prompt.tokens.len(), 0), positions, true);
        (theirs.len(), plan.takes(|page| theirs.contains(&page)))
    }

    /// The number of the first `common` tokens of a slot's prompt that another turn can share once the slot's turn has
    /// computed them.
    #[must_use]
    pub fn shareable(&self, slot: usize, common: usize) -> usize {
        self.at(slot)
            .map_or(0, |one| one.usable_with(&self.layout, common, |_| true))
    }

    /// The number of tokens of a user's prompt that a turn could continue after.
    #[must_use]
    pub fn held_of(&self, (user, prompt): (u32, Wanted<'_>)) -> usize {
        let sequences = self.sequences.values();
        let held = sequences.map(|one| {
            let common = one.common_prefix(user, prompt, self.reuse);
            one.usable(&self.layout, common)
        });
        held.max().unwrap_or(0)
    }

    /// The sequence of a running turn with the longest prefix of a user's prompt, and that length.
    pub(super) fn shared_with_running(
        &self,
        user: u32,
        prompt: Wanted<'_>,
        leaving: &[usize],
    ) -> Option<(u64, usize)> {
        let stays = |slot: &usize| self.slots[*slot].keeps_pages() && !leaving.contains(slot);
        let run = (0..self.slots.len()).filter(stays);
        let run = run.filter_map(|slot| self.slots[slot].sequence);
        let most = prompt.tokens.len().saturating_sub(1);
        let shared = run.filter_map(|id| {
            let sequence = self.sequences.get(&id)?;
            let common = sequence.common_prefix(user, prompt, self.reuse).min(most);
            let shared = sequence.usable(&self.layout, common);
            (shared > 0).then_some((id, shared))
        });
        shared.max_by_key(|(_, shared)| *shared)
    }

    /// Whether a turn with planned pages fits into `of` pages.
    pub(super) fn fits(&self, plan: &Plan, leaving: &[usize], of: usize) -> bool {
        let stays = |slot: usize| self.slots[slot].keeps_pages() && !leaving.contains(&slot);
        // This is called before each step while a request waits.
        let (mut seats, mut pages, mut held) = (0, 0, vec![false; self.pool.len()]);
        for slot in (0..self.slots.len()).filter(|slot| stays(*slot)) {
            seats += 1;
            for page in self.at(slot).into_iter().flat_map(Sequence::used_pages) {
                pages += usize::from(!std::mem::replace(&mut held[page], true));
            }
        }
        seats < self.slots.len() && plan.takes(|page| held[page]) <= of - pages
    }
}
