//! Pages of the cache: which are free, and how many hold each of the others.

/// Pages, by number.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    /// How many sequences have each page.
    holders: Vec<u32>,
    /// The next to be taken last.
    free: Vec<usize>,
}

impl Pool {
    pub(super) fn new(pages: usize) -> Self {
        Self {
            holders: vec![0; pages],
            free: (0..pages).rev().collect(),
        }
    }

    /// All pages, free or not.
    pub(super) fn len(&self) -> usize {
        self.holders.len()
    }

    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    /// A page that nobody had, for one.
    pub(super) fn take(&mut self) -> Option<usize> {
        let page = self.free.pop()?;
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
            self.free.push(page);
        }
    }
}
