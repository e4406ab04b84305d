//! The page tables of a sequence: for each group of layers, the pages in the order of positions.
//!
//! During a turn, the pages of a group with a window form a ring: several elements of its table have the same page, and
//! only the last of them holds its positions. After the turn, elements without their positions have no page.

use std::collections::HashMap;

use super::layout::Layout;
use super::page::PAGE;
use super::stored::PagePlace;

/// An element of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) page: usize,
    /// Whether a later element may use the same page during this turn.
    pub(super) recycled: bool,
}

/// The tables of a sequence, all of the same length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tables {
    pub(super) groups: Vec<Vec<Option<Block>>>,
}

impl Tables {
    /// The number of elements of each table.
    pub(super) fn len(&self) -> usize {
        self.groups.first().map_or(0, Vec::len)
    }

    /// All pages. Those of a ring appear several times.
    pub(super) fn used_pages(&self) -> impl Iterator<Item = usize> + '_ {
        let blocks = self.groups.iter().flatten().flatten();
        blocks.map(|block| block.page)
    }

    /// The lasting pages of a number of positions, by their places, in order.
    pub(super) fn placed(&self, positions: usize) -> Vec<(PagePlace, usize)> {
        let end = positions.div_ceil(PAGE);
        let groups = self.groups.iter().enumerate();
        let placed = groups.flat_map(|(group, table)| {
            let blocks = table.iter().take(end).enumerate();
            blocks.filter_map(move |(index, block)| {
                let block = block.filter(|block| !block.recycled)?;
                Some((PagePlace { group, index }, block.page))
            })
        });
        placed.collect()
    }

    /// The greatest number of positions, at most `positions`, whose pages later tokens can be computed from.
    pub(super) fn usable(&self, layout: &Layout, positions: usize) -> usize {
        let mut usable = positions;
        // A group that sees all positions has all pages of the tokens.
        while let Some(lacks) = self.lacks(layout, usable) {
            usable = lacks * PAGE;
        }
        usable
    }

    /// Whether the row after a number of positions finds all that it reads: each element has a page that no other element
    /// uses, so that no other position was or will be written to it.
    pub(super) fn holds(&self, layout: &Layout, positions: usize) -> bool {
        let mut uses = HashMap::<usize, usize>::new();
        for page in self.used_pages() {
            *uses.entry(page).or_default() += 1;
        }
        let is_own = |block: &Block| !block.recycled && uses[&block.page] == 1;
        let mut groups = self.groups.iter().enumerate();
        groups.all(|(group, table)| {
            let mut needed = layout.needed(group, positions);
            needed.all(|at| matches!(table.get(at), Some(Some(block)) if is_own(block)))
        })
    }

    /// The positions up to the first element without a page of a group that sees all positions.
    pub(super) fn reach(&self, layout: &Layout) -> usize {
        let groups = self.groups.iter().enumerate();
        let all = groups.filter(|(group, _)| layout.sees_all(*group));
        let first = all.map(|(_, table)| table.iter().take_while(|block| block.is_some()).count());
        first.min().unwrap_or(self.len()) * PAGE
    }

    /// The first element that a number of positions needs and that has no page of its own.
    fn lacks(&self, layout: &Layout, positions: usize) -> Option<usize> {
        let lacks = |(group, table): (usize, &Vec<Option<Block>>)| {
            let mut needed = layout.needed(group, positions);
            needed.find(|at| !matches!(table.get(*at), Some(Some(block)) if !block.recycled))
        };
        self.groups.iter().enumerate().filter_map(lacks).min()
    }

    /// Drops all pages but those that `positions` tokens and the checkpoints need. No run may use the others.
    pub(super) fn trim(&mut self, layout: &Layout, positions: usize, checkpoints: &[usize]) {
        for (group, table) in self.groups.iter_mut().enumerate() {
            table.truncate(layout.needed(group, positions).end);
            if layout.sees_all(group) {
                continue;
            }
            // The last element with a page holds its positions.
            let mut last = HashMap::new();
            for (at, block) in table.iter().enumerate() {
                last.extend(block.map(|block| (block.page, at)));
            }
            let kept = checkpoints.iter().map(|at| layout.kept(group, *at));
            let kept: Vec<_> = kept.chain([layout.needed(group, positions)]).collect();
            for (at, block) in table.iter_mut().enumerate() {
                let stays = kept.iter().any(|range| range.contains(&at));
                *block = block
                    .filter(|block| stays && last[&block.page] == at)
                    .map(|block| Block {
                        recycled: false,
                        ..block
                    });
            }
        }
    }

    /// Drops the pages after `held` positions that the row after `positions` positions does not read.
    pub(super) fn drop_unwritten(&mut self, layout: &Layout, held: usize, positions: usize) {
        for (group, table) in self.groups.iter_mut().enumerate() {
            let first = layout.needed(group, positions).start;
            let unwritten = table.iter_mut().take(first).skip(held / PAGE);
            unwritten.for_each(|block| *block = None);
        }
    }

    /// Replaces every page by `new(page)`, and drops those that it returns `None` for.
    pub(super) fn replace(&mut self, mut new: impl FnMut(usize) -> Option<usize>) {
        for block in self.groups.iter_mut().flatten() {
            *block = block.and_then(|block| {
                let page = new(block.page)?;
                Some(Block { page, ..block })
            });
        }
    }

    /// The tables without the pages that a running turn will write again.
    pub(super) fn lasting(&self) -> Self {
        let mut tables = self.clone();
        for block in tables.groups.iter_mut().flatten() {
            *block = block.filter(|block| !block.recycled);
        }
        tables
    }

    /// The pages of each table for an executor; `None` where no row may read.
    pub(super) fn of_executor(&self) -> Vec<Vec<Option<usize>>> {
        let page = |block: &Option<Block>| block.map(|block| block.page);
        let table = |table: &Vec<Option<Block>>| table.iter().map(page).collect();
        self.groups.iter().map(table).collect()
    }
}
