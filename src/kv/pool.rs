//! Pages of the cache: which have memory, which of those are free, and how many hold each of the others.

use std::collections::BTreeSet;
use std::ops::Range;

/// Pages, by number. Memory comes and goes by chunks of them; their numbers stay what they are.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    /// How many sequences have each page.
    holders: Vec<u32>,
    /// These pages have memory and no holder. The lowest is taken first, so that the chunks of the highest empty.
    free: BTreeSet<usize>,
    /// Pages of a chunk; the last one may have fewer.
    chunk: usize,
    /// Chunks without memory.
    given_back: BTreeSet<usize>,
}

impl Pool {
    /// All of them have memory.
    pub(super) fn new(pages: usize, chunk: usize) -> Self {
        Self {
            holders: vec![0; pages],
            free: (0..pages).collect(),
            chunk: chunk.max(1),
            given_back: BTreeSet::new(),
        }
    }

    /// All pages, with memory or without.
    pub(super) fn len(&self) -> usize {
        self.holders.len()
    }

    /// How many pages have memory.
    pub(super) fn allocated(&self) -> usize {
        let pages = |chunk: &usize| self.pages_of(*chunk).len();
        self.len() - self.given_back.iter().map(pages).sum::<usize>()
    }

    /// Pages that nobody has and that can be taken.
    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    pub(super) fn chunks(&self) -> usize {
        self.len().div_ceil(self.chunk)
    }

    pub(super) fn chunk_of(&self, page: usize) -> usize {
        page / self.chunk
    }

    pub(super) fn pages_of(&self, chunk: usize) -> Range<usize> {
        let first = chunk * self.chunk;
        first..(first + self.chunk).min(self.len())
    }

    pub(super) fn has_memory(&self, chunk: usize) -> bool {
        !self.given_back.contains(&chunk)
    }

    /// The chunk that is to have memory next, if any has none.
    pub(super) fn next_chunk(&self) -> Option<usize> {
        self.given_back.first().copied()
    }

    /// A chunk has memory again.
    pub(super) fn allocate(&mut self, chunk: usize) {
        if self.given_back.remove(&chunk) {
            self.free.extend(self.pages_of(chunk));
        }
    }

    /// Takes the pages of a chunk away, if they are all free; returns whether they were.
    pub(super) fn give_back(&mut self, chunk: usize) -> bool {
        let all_free = self.pages_of(chunk).all(|page| self.free.contains(&page));
        if all_free {
            let pages = self.pages_of(chunk);
            self.free.retain(|page| !pages.contains(page));
            self.given_back.insert(chunk);
        }
        all_free
    }

    /// A page that nobody had, for one.
    pub(super) fn take(&mut self) -> Option<usize> {
        let page = self.free.pop_first()?;
        self.holders[page] = 1;
        Some(page)
    }

    /// Another has the page too.
    pub(super) fn share(&mut self, page: usize) {
        self.holders[page] += 1;
    }

    pub(super) fn is_shared(&self, page: usize) -> bool {
        self.holders[page] > 1
    }

    /// One has the page no more.
    pub(super) fn leave(&mut self, page: usize) {
        self.holders[page] -= 1;
        if self.holders[page] == 0 {
            self.free.insert(page);
        }
    }
}
