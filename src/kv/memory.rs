//! Which pages have memory: it goes when nobody needs them, and comes before a turn that does.
//!
//! Nothing is allocated or freed here: whoever asks does that, and says what came of it.

use std::cmp::Reverse;
use std::collections::HashSet;

use super::pool::Pool;
use super::{Kv, Owner, PAGE, Sequence};

impl Kv {
    /// Pages that have memory.
    #[must_use]
    pub fn allocated(&self) -> usize {
        self.pool.allocated()
    }

    /// Whether pages may have changed hands since this was asked last.
    pub fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    /// The chunk that is to have memory next, before a turn of so many positions begins; `None` if what nobody needs is enough
    /// for it, or no more can be had. What it has of a turn that runs is that one's: there is room for it without.
    #[must_use]
    pub fn lacks(&self, owner: Option<Owner>, positions: usize) -> Option<usize> {
        let runs = self.sequences.iter().filter(|(id, _)| self.runs(**id));
        let run: HashSet<_> = runs.flat_map(|(_, one)| &one.pages).collect();
        let own = owner.and_then(|owner| self.sequence_of(owner));
        let own = own.map_or(&[][..], |id| &self.sequences[&id].pages);
        let own = own.iter().filter(|page| !run.contains(page)).count();
        let needed = self.needed(self.rested);
        let spare = self.pool.allocated() - needed.iter().filter(|needed| **needed).count();
        let lacks = positions.div_ceil(PAGE) > own + spare && !self.refused;
        self.pool.next_chunk().filter(|_| lacks)
    }

    /// A chunk has memory again.
    pub fn allocate(&mut self, chunk: usize) {
        self.pool.allocate(chunk);
        self.moved = true;
    }

    /// There is no memory for more: turns wait for others, rather than for it.
    pub fn refuse(&mut self) {
        self.refused = true;
    }

    /// Turns that have begun so far.
    #[must_use]
    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// Chunks that could be given back so that besides what is needed `keep` pages still have memory: first those whose pages
    /// nobody has, then those that were used least lately. What is nobody's any more is needed if it was used after so many turns.
    #[must_use]
    pub fn spare(&self, keep: usize, rested: u64) -> Vec<usize> {
        let needed = self.needed(rested);
        let mut used = vec![0; self.pool.chunks()];
        for sequence in self.sequences.values() {
            for page in &sequence.pages {
                let used = &mut used[self.pool.chunk_of(*page)];
                *used = sequence.used.max(*used);
            }
        }
        let mut left = self.pool.allocated() - needed.iter().filter(|needed| **needed).count();
        let mut spare: Vec<_> = (0..self.pool.chunks())
            .filter(|chunk| self.pool.has_memory(*chunk))
            .filter(|chunk| !needed[self.pool.pages_of(*chunk)].contains(&true))
            .collect();
        // Pages are taken from the first on.
        spare.sort_by_key(|chunk| (used[*chunk], Reverse(*chunk)));
        spare.retain(|chunk| {
            let pages = self.pool.pages_of(*chunk).len();
            let may = left >= keep + pages;
            left -= if may { pages } else { 0 };
            may
        });
        spare
    }

    /// Takes the memory of what is `spare` out of use; what was kept there serves nobody any more. Returns these chunks: no
    /// sequence has a page of theirs.
    pub fn give_back(&mut self, keep: usize, rested: u64) -> Vec<usize> {
        self.rested = rested;
        let mut spare = self.spare(keep, rested);
        let ends = |pool: &Pool, sequence: &Sequence| {
            let mut pages = sequence.pages.iter();
            pages.position(|page| spare.contains(&pool.chunk_of(*page)))
        };
        let cut = self.sequences.iter();
        let cut = cut.filter_map(|(id, one)| Some((*id, ends(&self.pool, one)?)));
        for (id, pages) in cut.collect::<Vec<_>>() {
            if let Some(sequence) = self.sequences.get_mut(&id) {
                // What comes before still serves what begins alike.
                sequence.tokens.truncate(pages * PAGE);
            }
            self.trim(id);
        }
        self.sequences
            .retain(|_, one| one.owner.is_some() || !one.pages.is_empty());
        spare.retain(|chunk| self.pool.give_back(*chunk));
        spare
    }

    /// Of each page, whether a turn that runs or a conversation that may go on has it, or whatever was used after so many turns:
    /// a program that asks without a session begins alike again and again.
    pub(super) fn needed(&self, rested: u64) -> Vec<bool> {
        let mut needed = vec![false; self.pool.len()];
        for (id, sequence) in &self.sequences {
            if sequence.owner.is_some() || sequence.used > rested || self.runs(*id) {
                sequence.pages.iter().for_each(|page| needed[*page] = true);
            }
        }
        needed
    }
}
