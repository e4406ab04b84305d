//! The pages of a sequence that leave the cache and come back: to the host's memory, the disk, or another cache.

use super::layout::Layout;
use super::page::PAGE;

/// A page by its layers and positions, or a piece of a checkpoint of the recurrent state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PagePlace {
    /// The group of layers. The number after the last group stands for the recurrent state.
    pub group: usize,
    /// The element of the group's table: the page holds positions from 64 times this number on. A piece has its number plus
    /// the position of its checkpoint times the number of pieces.
    pub index: usize,
}

impl Layout {
    /// The greatest number of positions, at most `positions`, that can be continued with some stored pages, in order.
    #[must_use]
    pub fn usable(&self, stored: &[PagePlace], positions: usize) -> usize {
        let lacks = |place: &PagePlace| stored.binary_search(place).is_err();
        let mut usable = self.checkpointed(stored, positions);
        while let Some(lacks) = self.missing(0, usable).find(lacks) {
            usable = self.checkpointed(stored, usable.min(lacks.index * PAGE));
        }
        usable
    }

    /// The greatest of these positions that a stored state is at; all of them in models without recurrent layers.
    fn checkpointed(&self, stored: &[PagePlace], positions: usize) -> usize {
        if self.state == 0 {
            return positions;
        }
        let has = |place: PagePlace| stored.binary_search(&place).is_ok();
        let states = stored.iter().filter(|place| place.group == self.groups());
        let whole = states
            .map(|place| place.index / self.state)
            .filter(|at| *at <= positions && self.pieces(*at).all(has));
        whole.max().unwrap_or(0)
    }

    /// The pieces of the state's checkpoint at a position; none at position 0.
    pub(super) fn pieces(&self, position: usize) -> impl Iterator<Item = PagePlace> + use<> {
        let (group, first) = (self.groups(), position * self.state);
        let all = if position > 0 { self.state } else { 0 };
        (first..first + all).map(move |index| PagePlace { group, index })
    }

    /// The number of tokens that the content of a page depends on.
    #[must_use]
    pub fn tokens_of(&self, place: PagePlace) -> usize {
        if place.group == self.groups() {
            place.index / self.state.max(1)
        } else {
            (place.index + 1) * PAGE
        }
    }

    /// The pages that a sequence with its first `held` positions lacks to continue after `positions` positions, in order.
    /// The page of the last held positions counts, unless it is full. The state after `positions` positions counts, too.
    pub fn missing(&self, held: usize, positions: usize) -> impl Iterator<Item = PagePlace> + '_ {
        let pages = (0..self.groups()).flat_map(move |group| {
            let needed = self.needed(group, positions);
            let indices = needed.start.max(held / PAGE)..needed.end;
            indices.map(move |index| PagePlace { group, index })
        });
        pages.chain(self.pieces(positions))
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
    fn a_state_serves_its_own_position_alone() {
        let layout = Layout::plain().with_state(3);
        let mut stored: Vec<_> = layout.missing(0, 1000).collect();
        assert_eq!(stored.len(), 16 + 3);
        stored.extend(layout.pieces(640));
        stored.sort_unstable();
        assert_eq!(layout.usable(&stored, 1200), 1000);
        assert_eq!(layout.usable(&stored, 999), 640);
        assert_eq!(layout.usable(&stored, 639), 0);
        assert_eq!(layout.missing(900, 1000).count(), 2 + 3);
        // Without a piece of the last state.
        stored.pop();
        assert_eq!(layout.usable(&stored, 1200), 640);
        // Without a page before it.
        stored.remove(11);
        assert_eq!(layout.usable(&stored, 1200), 640);
        stored.remove(9);
        assert_eq!(layout.usable(&stored, 1200), 0);
    }

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
