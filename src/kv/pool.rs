//! The pages of the cache: which have memory, which are free, and how many sequences hold each.

use std::collections::BTreeSet;
use std::ops::Range;

/// Pages, by number. Chunks of them lose and get memory; the numbers stay.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    /// The number of sequences that hold each page.
    holders: Vec<u32>,
    /// Pages with memory and without a holder. The lowest is taken first, so that the highest chunks become empty.
    free: BTreeSet<usize>,
    /// Pages of a chunk; the last one may have fewer.
    chunk: usize,
    /// Chunks without memory.
    released: BTreeSet<usize>,
}

impl Pool {
    /// Creates pages that all have memory.
    pub(super) fn new(pages: usize, chunk: usize) -> Self {
        Self {
            holders: vec![0; pages],
            free: (0..pages).collect(),
            chunk: chunk.max(1),
            released: BTreeSet::new(),
        }
    }

    /// The number of pages, with or without memory.
    pub(super) fn len(&self) -> usize {
        self.holders.len()
    }

    /// The number of pages with memory.
    pub(super) fn allocated(&self) -> usize {
        let pages = |chunk: &usize| self.pages_of(*chunk).len();
        self.len() - self.released.iter().map(pages).sum::<usize>()
    }

    /// The number of free pages with memory.
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
        !self.released.contains(&chunk)
    }

    /// The chunk to allocate next, if any has no memory.
    pub(super) fn next_chunk(&self) -> Option<usize> {
        self.released.first().copied()
    }

    /// Notes that a chunk has memory.
    pub(super) fn allocate(&mut self, chunk: usize) {
        if self.released.remove(&chunk) {
            self.free.extend(self.pages_of(chunk));
        }
    }

    /// Removes the pages of a chunk if all of them are free. Returns whether they were.
    pub(super) fn release_chunk(&mut self, chunk: usize) -> bool {
        let all_free = self.pages_of(chunk).all(|page| self.free.contains(&page));
        if all_free {
            let pages = self.pages_of(chunk);
            self.free.retain(|page| !pages.contains(page));
            self.released.insert(chunk);
        }
        all_free
    }

    /// Takes a free page for one holder.
    pub(super) fn take(&mut self) -> Option<usize> {
        let page = self.free.pop_first()?;
        self.holders[page] = 1;
        Some(page)
    }

    /// Adds a holder to a page.
    pub(super) fn share(&mut self, page: usize) {
        self.holders[page] += 1;
    }

    pub(super) fn is_shared(&self, page: usize) -> bool {
        self.holders[page] > 1
    }

    /// Removes a holder from a page.
    pub(super) fn leave(&mut self, page: usize) {
        self.holders[page] -= 1;
        if self.holders[page] == 0 {
            self.free.insert(page);
        }
    }
}
