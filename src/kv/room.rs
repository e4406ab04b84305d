//! Whether there is room for a turn, without giving it any.

use std::collections::HashSet;

use super::prompt::Wanted;
use super::{Kv, PAGE};

impl Kv {
    /// Whether a user's turn of so many positions could begin if those in `leaving` entries gave way: there is an entry for it,
    /// and pages, once those that no turn needs have been given up; unless memory was refused, also those that have none. What
    /// it shares with turns that run counts once.
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
        self.fits(None, positions, leaving, pages)
            || self
                .shared_with_running(user, prompt, leaving)
                .is_some_and(|source| self.fits(Some(source), positions, leaving, pages))
    }

    /// Pages that the turns of a user have which run, each once, and those that another would take besides.
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
        let theirs: HashSet<_> = runs.flat_map(|(_, one)| &one.pages).collect();
        let source = self.shared_with_running(user, prompt, &[]);
        let shared = source.map_or(0, |(_, tokens)| tokens / PAGE);
        (
            theirs.len(),
            positions.div_ceil(PAGE).saturating_sub(shared),
        )
    }

    /// How many tokens of a user's prompt, from the first, some sequence holds.
    #[must_use]
    pub fn held_of(&self, (user, prompt): (u32, Wanted<'_>)) -> usize {
        let sequences = self.sequences.values();
        let held = sequences.map(|one| one.common_prefix(user, prompt, self.reuse));
        held.max().unwrap_or(0)
    }

    /// The sequence that has most of a user's prompt, and how much, of those that run on.
    pub(super) fn shared_with_running(
        &self,
        user: u32,
        prompt: Wanted<'_>,
        leaving: &[usize],
    ) -> Option<(u64, usize)> {
        let stays = |entry: &usize| self.entries[*entry].keeps_pages() && !leaving.contains(entry);
        let run = (0..self.entries.len()).filter(stays);
        let run = run.filter_map(|entry| self.entries[entry].sequence);
        let most = prompt.tokens.len().saturating_sub(1);
        let shared = run.filter_map(|id| {
            let sequence = self.sequences.get(&id)?;
            let shared = sequence.common_prefix(user, prompt, self.reuse).min(most);
            (shared > 0).then_some((id, shared))
        });
        shared.max_by_key(|(_, shared)| *shared)
    }

    /// The same of so many pages, if it begins with so many tokens of another sequence.
    pub(super) fn fits(
        &self,
        source: Option<(u64, usize)>,
        positions: usize,
        leaving: &[usize],
        of: usize,
    ) -> bool {
        let stays = |entry: usize| self.entries[entry].keeps_pages() && !leaving.contains(&entry);
        // It is asked before each step while somebody waits.
        let (mut seats, mut pages, mut held) = (0, 0, vec![false; self.pool.len()]);
        for entry in (0..self.entries.len()).filter(|entry| stays(*entry)) {
            seats += 1;
            for page in self.pages_of(entry) {
                pages += usize::from(!std::mem::replace(&mut held[*page], true));
            }
        }
        // The page that both go on apart in is copied.
        let source =
            source.and_then(|(id, tokens)| self.sequences.get(&id)?.pages.get(..tokens / PAGE));
        let shared = source
            .unwrap_or_default()
            .iter()
            .filter(|page| held[**page])
            .count();
        let takes = positions.div_ceil(PAGE).saturating_sub(shared);
        seats < self.entries.len() && takes <= of - pages
    }
}
