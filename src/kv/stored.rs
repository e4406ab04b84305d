//! The pages of a sequence that leave the cache and come back: to the host's memory, the disk, or another cache.

use super::layout::Layout;
use super::page::PAGE;

/// A page by its layers and positions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PagePlace {
    /// The group of layers.
    pub group: usize,
    /// The element of the group's table: the page holds positions from 64 times this number on.
    pub index: usize,
}

impl Layout {
    /// The greatest number of positions, at most `positions`, that can be continued with some stored pages, in order.
    #[must_use]
    pub fn usable(&self, stored: &[PagePlace], positions: usize) -> usize {
        let mut usable = positions;
        while let Some(lacks) = self
            .missing(0, usable)
            .find(|place| stored.binary_search(place).is_err())
        {
            usable = usable.min(lacks.index * PAGE);
        }
        usable
    }

    /// The pages that a sequence with its first `held` positions lacks to continue after `positions` positions, in order.
    /// The page of the last held positions counts, unless it is full.
    pub fn missing(&self, held: usize, positions: usize) -> impl Iterator<Item = PagePlace> + '_ {
        (0..self.groups()).flat_map(move |group| {
            let needed = self.needed(group, positions);
            let indices = needed.start.max(held / PAGE)..needed.end;
            indices.map(move |index| PagePlace { group, index })
        })
    }

    /// The positions that can be continued with the first `arrived` of the missing pages. If they are not all, there are
    /// such positions only where all layers see all positions: other groups need the pages that have not arrived.
    #[must_use]
    pub fn reached(&self, missing: &[PagePlace], arrived: usize, positions: usize) -> usize {
        match missing.get(arrived) {
            None => positions,
            Some(next) if self.is_plain() => positions.min(next.index * PAGE),
            Some(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_a_window_serve_the_end_alone() {
        let layout = Layout::new(vec![None, Some(100)], 64);
        let stored: Vec<_> = layout.missing(0, 1000).collect();
        assert_eq!(stored.len(), 16 + 2);
        assert_eq!(layout.usable(&stored, 1000), 1000);
        assert_eq!(layout.usable(&stored, 998), 998);
        assert_eq!(layout.usable(&stored, 900), 0);
        let lacks: Vec<_> = layout.missing(990, 1000).collect();
        let page = |group| PagePlace { group, index: 15 };
        assert_eq!(lacks, [page(0), page(1)]);
        assert_eq!(layout.reached(&stored, 17, 1000), 0);
        assert_eq!(Layout::plain().reached(&stored, 3, 1000), 3 * PAGE);
    }
}
