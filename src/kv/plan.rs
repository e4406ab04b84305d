//! Plans the pages of a turn before it begins: those that it takes over from another sequence, and new ones.

use std::collections::BTreeSet;

use super::change::Copied;
use super::checkpoint::{Checkpoint, END};
use super::layout::{CHECKPOINTS, Layout};
use super::page::PAGE;
use super::tables::{Block, Tables};
use super::{Kv, Sequence};

/// A page of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Planned {
    /// A page of the cached prefix.
    Kept(usize),
    /// A new page, by its number among the new ones.
    New { number: usize, recycled: bool },
}

/// The pages of a turn.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    /// One table for each group.
    pub(super) groups: Vec<Vec<Option<Planned>>>,
    /// The number of new pages.
    pub(super) new: usize,
    /// The elements of the cached prefix whose positions are all cached. The page of the next element is copied if
    /// another sequence has it, too.
    pub(super) whole: usize,
    /// The checkpoints of the turn, in order.
    checkpoints: Vec<PlannedCheckpoint>,
}

/// A checkpoint of a turn.
#[derive(Clone, Debug)]
struct PlannedCheckpoint {
    position: usize,
    /// The pages of its state. Those of an earlier checkpoint are filled.
    pieces: Vec<Planned>,
    filled: bool,
}

impl Plan {
    /// Plans a turn of a number of positions after the first `cached` positions of a sequence.
    ///
    /// `checkpoints` are the positions of those within the turn. With `inherits` those of the sequence stay, too.
    pub(super) fn new(
        layout: &Layout,
        (source, cached): (Option<&Sequence>, usize),
        positions: usize,
        (checkpoints, inherits): (&[usize], bool),
    ) -> Self {
        let mut plan = Self {
            whole: cached / PAGE,
            ..Self::default()
        };
        let before = source.map_or(&[][..], |source| &source.checkpoints);
        for one in before.iter().filter(|one| one.filled || layout.state == 0) {
            // The state begins at the checkpoint of the cached positions.
            if one.position == cached || inherits && one.position < cached {
                plan.checkpoints.push(PlannedCheckpoint {
                    position: one.position,
                    pieces: one.pieces.iter().copied().map(Planned::Kept).collect(),
                    filled: one.filled,
                });
            }
        }
        let later: BTreeSet<_> = checkpoints.iter().filter(|at| **at > cached).collect();
        for position in later.into_iter().copied() {
            let first = plan.new;
            plan.new += layout.state;
            let new = |number| Planned::New {
                number,
                recycled: false,
            };
            plan.checkpoints.push(PlannedCheckpoint {
                position,
                pieces: (first..plan.new).map(new).collect(),
                filled: false,
            });
        }
        plan.checkpoints.sort_by_key(|one| one.position);
        // The first one is often the end of the instructions.
        let stays = |one: &PlannedCheckpoint| one.position >= cached;
        // The state at the end of the turn counts apart.
        let most = CHECKPOINTS + usize::from(layout.state > 0);
        while plan.checkpoints.len() > most && !stays(&plan.checkpoints[1]) {
            plan.checkpoints.remove(1);
        }
        for group in 0..layout.groups() {
            let held = source.map(|source| &source.tables);
            let table = plan.table(layout, group, (held, cached), positions);
            plan.groups.push(table);
        }
        plan
    }

    fn table(
        &mut self,
        layout: &Layout,
        group: usize,
        (held, cached): (Option<&Tables>, usize),
        positions: usize,
    ) -> Vec<Option<Planned>> {
        let (first, end) = (cached.div_ceil(PAGE), positions.div_ceil(PAGE));
        let kept = |at: usize| {
            let needed = layout.needed(group, cached).contains(&at)
                || self.checkpoints.iter().any(|one| {
                    one.position <= cached && layout.kept(group, one.position).contains(&at)
                });
            let block: Block = (*held?.groups.get(group)?.get(at)?)?;
            (needed && !block.recycled).then_some(Planned::Kept(block.page))
        };
        let mut table: Vec<_> = (0..first.min(end)).map(kept).collect();
        let stays = |at: usize| {
            let mut all = self.checkpoints.iter().filter(|one| one.position != END);
            all.any(|one| layout.kept(group, one.position).contains(&at))
        };
        let ring = layout
            .ring(group)
            .filter(|ring| end - first.min(end) > *ring);
        let mut recycled = Vec::new();
        let mut placed = 0;
        for at in first..end {
            let number = match ring {
                Some(ring) if !stays(at) => {
                    placed += 1;
                    if recycled.len() < ring {
                        recycled.push(self.new);
                        self.new += 1;
                    }
                    recycled[(placed - 1) % ring]
                }
                _ => {
                    self.new += 1;
                    self.new - 1
                }
            };
            let recycled = ring.is_some() && !stays(at);
            table.push(Some(Planned::New { number, recycled }));
        }
        table
    }

    /// The pages of the cached prefix, each with the number of its element.
    pub(super) fn kept(&self) -> Vec<(usize, usize)> {
        let tables = self.groups.iter().map(|table| table.iter().enumerate());
        let kept = tables.flatten().filter_map(|(at, planned)| match planned {
            Some(Planned::Kept(page)) => Some((at, *page)),
            _ => None,
        });
        kept.collect()
    }

    /// The pages of earlier checkpoints, which no run writes to.
    pub(super) fn kept_pieces(&self) -> impl Iterator<Item = usize> + '_ {
        let pieces = self.checkpoints.iter().flat_map(|one| &one.pieces);
        pieces.filter_map(|planned| match planned {
            Planned::Kept(page) => Some(*page),
            Planned::New { .. } => None,
        })
    }

    /// The number of pages that a turn needs besides those that running turns hold.
    pub(super) fn takes(&self, is_held: impl Fn(usize) -> bool) -> usize {
        let kept = self.kept().into_iter();
        let others = kept.filter(|(at, page)| *at >= self.whole || !is_held(*page));
        let pieces = self.kept_pieces().filter(|page| !is_held(*page));
        self.new + others.count() + pieces.count()
    }

    /// The checkpoints of the turn, with the new pages.
    pub(super) fn checkpoints(&self, new: &[usize]) -> Vec<Checkpoint> {
        let page = |planned: &Planned| match planned {
            Planned::Kept(page) => Some(*page),
            Planned::New { number, .. } => new.get(*number).copied(),
        };
        let checkpoint = |one: &PlannedCheckpoint| Checkpoint {
            position: one.position,
            pieces: one.pieces.iter().filter_map(page).collect(),
            filled: one.filled,
        };
        self.checkpoints.iter().map(checkpoint).collect()
    }

    /// The tables of the turn, with the new pages, and with the copies of shared ones.
    pub(super) fn tables(&self, copies: &[Copied], new: &[usize]) -> Tables {
        let block = |planned: Planned| match planned {
            Planned::Kept(from) => {
                let copy = copies.iter().find(|copy| copy.from == from);
                Some(Block {
                    page: copy.map_or(from, |copy| copy.to),
                    recycled: false,
                })
            }
            Planned::New { number, recycled } => {
                let page = *new.get(number)?;
                Some(Block { page, recycled })
            }
        };
        let table = |table: &Vec<Option<Planned>>| {
            let blocks = table.iter().map(|planned| planned.and_then(block));
            blocks.collect()
        };
        Tables {
            groups: self.groups.iter().map(table).collect(),
        }
    }
}

impl Kv {
    /// Plans the pages of a turn that shares a number of positions with another sequence.
    ///
    /// Where pages leave windows, or a state is recurrent, the turn has checkpoints: at the end of the prompt, at its own
    /// end, and where the prompt diverges from a sequence of its user: `common` is the longest prefix of the prompt that any
    /// of them had. With `inherits` those of the other sequence stay, too.
    pub(super) fn plan(
        &self,
        source: Option<(u64, usize)>,
        (prompt, common): (usize, usize),
        positions: usize,
        inherits: bool,
    ) -> Plan {
        let (id, cached) = source.unzip();
        let held = id.and_then(|id| self.sequences.get(&id));
        let cached = cached.unwrap_or(0);
        let mut checkpoints = Vec::new();
        if self.layout.has_checkpoints() {
            let diverges = (common > cached + PAGE).then_some(common);
            let all = diverges.into_iter().chain([prompt]);
            checkpoints.extend(all.map(|at| self.layout.checkpoint(at)));
            checkpoints.extend((self.layout.state > 0).then_some(END));
        }
        let checkpoints = (&checkpoints[..], inherits);
        Plan::new(
            &self.layout,
            (held, cached),
            positions.max(prompt),
            checkpoints,
        )
    }
}
