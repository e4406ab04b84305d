//! The memory of pages: it is released when no turn needs it, and allocated before a turn that does.
//!
//! This module allocates and frees nothing; callers do, and report the result.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashSet};

use super::{Kv, Owner};

impl Kv {
    /// The number of pages with memory.
    #[must_use]
    pub fn allocated(&self) -> usize {
        self.pool.allocated()
    }

    /// Whether pages may have been moved since the last call.
    pub fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    /// The chunk to allocate before a turn of `positions` begins. Returns `None` if there are enough free pages, or if
    /// an allocation was refused. Pages of the turn's own running sequence are not counted.
    #[must_use]
    pub fn lacks(&self, owner: Option<Owner>, positions: usize) -> Option<usize> {
        let runs = self.sequences.iter().filter(|(id, _)| self.runs(**id));
        let run: HashSet<_> = runs.flat_map(|(_, one)| one.used_pages()).collect();
        let own = owner.and_then(|owner| self.sequence_of(owner));
        let own = own.map_or_else(BTreeSet::new, |id| self.sequences[&id].pages());
        let own = own.iter().filter(|page| !run.contains(*page)).count();
        let needed = self.needed(self.rested);
        let spare = self.pool.allocated() - needed.iter().filter(|needed| **needed).count();
        let lacks = self.layout.pages(positions) > own + spare && !self.refused;
        self.pool.next_chunk().filter(|_| lacks)
    }

    /// Notes that a chunk has been allocated.
    pub fn allocate(&mut self, chunk: usize) {
        self.pool.allocate(chunk);
        self.moved = true;
    }

    /// Notes that an allocation was refused: until pages are released, turns wait for other turns instead of memory.
    pub fn refuse(&mut self) {
        self.refused = true;
    }

    /// The number of turns so far.
    #[must_use]
    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// The chunks that can be released so that `keep` pages beyond the needed ones still have memory. Free chunks come
    /// first, then the least recently used ones. A sequence without an owner is needed if it was used after turn
    /// `rested`.
    #[must_use]
    pub fn spare(&self, keep: usize, rested: u64) -> Vec<usize> {
        let needed = self.needed(rested);
        let mut used = vec![0; self.pool.chunks()];
        for sequence in self.sequences.values() {
            for page in sequence.used_pages() {
                let used = &mut used[self.pool.chunk_of(page)];
                *used = sequence.used.max(*used);
            }
        }
        let mut left = self.pool.allocated() - needed.iter().filter(|needed| **needed).count();
        let mut spare: Vec<_> = (0..self.pool.chunks())
            .filter(|chunk| self.pool.has_memory(*chunk))
            .filter(|chunk| !needed[self.pool.pages_of(*chunk)].contains(&true))
            .collect();
        // Pages are taken from the lowest up.
        spare.sort_by_key(|chunk| (used[*chunk], Reverse(*chunk)));
        spare.retain(|chunk| {
            let pages = self.pool.pages_of(*chunk).len();
            let may = left >= keep + pages;
            left -= if may { pages } else { 0 };
            may
        });
        spare
    }

    /// Drops the pages of spare chunks and the tokens in them. Returns these chunks, which no sequence uses any more.
    pub fn release_memory(&mut self, keep: usize, rested: u64) -> Vec<usize> {
        self.rested = rested;
        let mut spare = self.spare(keep, rested);
        let ids: Vec<_> = self.sequences.keys().copied().collect();
        for id in ids {
            self.lose_chunks(id, &spare);
        }
        self.sequences
            .retain(|_, one| one.owner.is_some() || one.used_pages().next().is_some());
        spare.retain(|chunk| self.pool.release_chunk(*chunk));
        spare
    }

    /// Takes the pages of chunks from a sequence. Earlier tokens can still be reused.
    fn lose_chunks(&mut self, id: u64, chunks: &[usize]) {
        let Some(sequence) = self.sequences.get(&id) else {
            return;
        };
        let is_lost = |page: usize| chunks.contains(&self.pool.chunk_of(page));
        if !sequence.used_pages().any(is_lost) {
            return;
        }
        // Before it loses any, all elements show which pages of a ring were overwritten.
        self.trim(id);
        let Some(sequence) = self.sequences.get_mut(&id) else {
            return;
        };
        let before = sequence.pages();
        let is_lost = |page: &usize| chunks.contains(&self.pool.chunk_of(*page));
        sequence.replace(|page| Some(page).filter(|page| !is_lost(page)));
        let reach = sequence.tables.reach(&self.layout);
        for page in before.difference(&sequence.pages()) {
            self.pool.leave(*page);
        }
        self.cut(id, reach);
    }

    /// For each page, whether a running turn or a conversation needs it, or a sequence that was used after turn
    /// `rested`: programs without sessions often send prompts with a common prefix.
    pub(super) fn needed(&self, rested: u64) -> Vec<bool> {
        let mut needed = vec![false; self.pool.len()];
        for (id, sequence) in &self.sequences {
            if sequence.owner.is_some() || sequence.used > rested || self.runs(*id) {
                sequence.used_pages().for_each(|page| needed[page] = true);
            }
        }
        needed
    }
}
