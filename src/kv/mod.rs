//! The bookkeeping of the key-value cache: sequences of tokens, their pages, and the conversations that own them.
//!
//! The executor holds the values. Every change of the cache except one more token of the same turn is made here, and
//! increments the epoch in one place.
//!
//! Sequences with a common prefix share its pages, and a shared page is copied before it is written (vLLM: Kwon et al.
//! 2023). Steps and prompts are computed by two families of kernels whose last bits differ. With exact reuse, a
//! sequence shares only tokens that the same family computed.
//!
//! Layers that see only a window of positions have page tables of their own (`Layout`). Their pages form a ring, so that
//! a long conversation holds only the positions that its windows see. A prompt that diverges where pages have left
//! a window continues from an earlier checkpoint, whose pages were kept.
//!
//! Steps are launched before the tokens of earlier steps have been taken, so a conversation can end while a step may
//! still write to its pages. These pages are in quarantine: no other sequence gets them before the step has ended
//! (`Kv::launched`).
//!
//! The memory of pages is allocated in chunks. Chunks that no turn and no conversation needs, and that were not used
//! recently, can be released. The memory for one more turn stays, so that the next request does not depend on the
//! memory of other processes.
//!
//! Tokens of one user are never reused for another user, nor compared with another user's prompt: the length of a
//! cached prefix is reported and can be timed, and would disclose other users' prompts.

mod change;
mod checkpoint;
mod conversations;
mod eviction;
mod kv_type;
mod kv_types;
mod layout;
mod memory;
mod moving;
mod page;
mod pages;
mod plan;
mod pool;
mod prompt;
mod q8_0;
mod room;
mod states;
mod stored;
mod tables;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use self::checkpoint::{Checkpoint, END};
use self::pool::Pool;
use self::tables::Tables;

pub use self::change::{Change, Copied, Resting, Runs, Turn};
pub use self::checkpoint::StateStart;
pub use self::kv_type::KvType;
pub use self::kv_types::KvTypes;
pub use self::layout::Layout;
pub use self::page::PAGE;
pub use self::prompt::{FIRST_IMAGE_ROW, Family, Reuse, Wanted, common_prefix};
pub use self::stored::PagePlace;

/// The most sequences in the cache, however short they are.
const SEQUENCES: usize = 1024;

/// The conversation that owns a sequence. A conversation of a single turn has no owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner(pub u64);

/// The sequences of the cache and the slots of the executor, one of which is active.
#[derive(Clone, Debug)]
pub struct Kv {
    layout: Layout,
    pool: Pool,
    sequences: BTreeMap<u64, Sequence>,
    /// The last sequence of each slot.
    slots: Vec<Seat>,
    active: usize,
    /// Changes so far.
    epoch: u64,
    /// Turns so far, each of which may have made a sequence.
    turns: u64,
    /// Sequences evicted so far.
    evictions: u64,
    /// Owners whose pages were evicted, or lost with a resized cache.
    lost: HashSet<Owner>,
    reuse: Reuse,
    /// Whether an allocation was refused, until pages are released.
    refused: bool,
    /// Whether pages have been moved since `take_moved`.
    moved: bool,
    /// The number of turns after which an unused sequence without an owner may lose its memory.
    rested: u64,
}

/// A slot of the executor.
#[derive(Clone, Copy, Debug, Default)]
struct Seat {
    sequence: Option<u64>,
    /// Whether a turn runs in the slot, so that its pages must not be evicted.
    pinned: bool,
    /// Whether a step in flight may still write to its pages.
    launched: bool,
    /// The length of its page tables at the beginning of the turn.
    given: usize,
    /// Whether the turn has ended, so that its unused pages are spare.
    ended: bool,
}

impl Seat {
    fn keeps_pages(self) -> bool {
        self.pinned || self.launched
    }
}

#[derive(Clone, Debug, Default)]
struct Sequence {
    /// The tokens whose K and V the pages hold, oldest first.
    tokens: Vec<(u32, Family)>,
    /// Pages for the tokens, and for those that a running turn may still generate.
    tables: Tables,
    /// The positions that it can be continued from besides its end, in order.
    checkpoints: Vec<Checkpoint>,
    owner: Option<Owner>,
    /// The user of the tokens, also after the conversation has ended.
    user: u32,
    /// The turn that used the sequence last.
    used: u64,
}

impl Kv {
    /// Creates an empty cache with at least one slot. All pages have memory. All layers see all positions.
    #[must_use]
    pub fn new(slots: usize, (pages, chunk): (usize, usize), reuse: Reuse) -> Self {
        Self {
            layout: Layout::plain(),
            pool: Pool::new(pages, chunk),
            sequences: BTreeMap::new(),
            slots: vec![Seat::default(); slots.max(1)],
            active: 0,
            epoch: 0,
            turns: 0,
            evictions: 0,
            lost: HashSet::new(),
            reuse,
            refused: false,
            moved: true,
            rested: 0,
        }
    }

    /// Sets the groups of layers of an empty cache.
    #[must_use]
    pub fn with_layout(self, layout: Layout) -> Self {
        Self { layout, ..self }
    }

    /// Sets the groups of layers of a cache that will be allocated again, with `resize` or `move_to`.
    pub fn set_layout(&mut self, layout: Layout) {
        self.layout = layout;
    }

    /// Tokens of the active slot.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len_of(self.active)
    }

    /// The tokens in a slot's pages.
    #[must_use]
    pub fn len_of(&self, slot: usize) -> usize {
        self.at(slot).map_or(0, |sequence| sequence.tokens.len())
    }

    /// The page tables of a slot, one for each group of layers, in the order of positions. No row reads an element
    /// without a page.
    #[must_use]
    pub fn tables_of(&self, slot: usize) -> Vec<Vec<Option<usize>>> {
        self.at(slot)
            .map_or_else(Vec::new, |sequence| sequence.tables.of_executor())
    }

    /// The positions for which a slot has pages.
    #[must_use]
    pub fn capacity_of(&self, slot: usize) -> usize {
        self.at(slot)
            .map_or(0, |sequence| sequence.tables.len() * PAGE)
    }

    /// The page of a slot at a place. A stored state goes to the pages for the end of the slot's turn.
    #[must_use]
    pub fn page_at(&self, slot: usize, place: PagePlace) -> Option<usize> {
        let sequence = self.at(slot)?;
        if place.group == self.layout.groups() {
            let end = sequence
                .checkpoints
                .iter()
                .find(|one| one.position == END)?;
            return end
                .pieces
                .get(place.index % self.layout.state.max(1))
                .copied();
        }
        let table = sequence.tables.groups.get(place.group)?;
        Some((*table.get(place.index)?)?.page)
    }

    /// The active slot.
    #[must_use]
    pub fn active(&self) -> usize {
        self.active
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The tokens that a turn may reuse.
    #[must_use]
    pub fn reuse(&self) -> Reuse {
        self.reuse
    }

    /// Sets the tokens that later turns may reuse.
    pub fn set_reuse(&mut self, reuse: Reuse) {
        self.reuse = reuse;
    }

    /// The number of pages, and of those that are free, with or without memory.
    #[must_use]
    pub fn pages(&self) -> (usize, usize) {
        let without = self.pool.len() - self.pool.allocated();
        (self.pool.len(), self.pool.free() + without)
    }

    /// Protects the pages of a slot from other turns while its turn runs.
    pub fn pin(&mut self, slot: usize) {
        self.slots[slot].pinned = true;
    }

    /// Whether the turn of a slot runs.
    #[must_use]
    pub fn is_pinned(&self, slot: usize) -> bool {
        self.slots[slot].pinned
    }

    /// Ends the turn of a slot. Its spare pages become free when no step may write to them, and its tokens can be
    /// reused.
    pub fn unpin(&mut self, slot: usize) {
        self.slots[slot].pinned = false;
        self.slots[slot].ended = true;
        self.leave_spare(slot);
        self.refused = false;
    }

    /// Sets the slots of steps in flight. Their pages are in quarantine.
    pub fn launched(&mut self, slots: &[usize]) {
        for slot in 0..self.slots.len() {
            let is = slots.contains(&slot);
            let was = std::mem::replace(&mut self.slots[slot].launched, is);
            if was && !is {
                self.leave_spare(slot);
            }
        }
    }

    /// Frees the pages beyond the tokens of a slot whose turn has ended.
    fn leave_spare(&mut self, slot: usize) {
        let seat = self.slots[slot];
        if let Some(id) = seat.sequence.filter(|_| seat.ended && !seat.keeps_pages()) {
            self.trim(id);
        }
        self.moved = true;
    }

    /// Whether a slot still has all pages of its turn: a slot that is not pinned can lose them. Before the first turn
    /// there are no pages to lose.
    #[must_use]
    pub fn is_seated(&self, slot: usize) -> bool {
        let Some(seat) = self.slots.get(slot) else {
            return false;
        };
        self.turns == 0
            || self
                .at(slot)
                .is_some_and(|sequence| sequence.tables.len() >= seat.given)
    }

    /// Activates a slot.
    pub fn turn_to(&mut self, slot: usize) {
        self.active = slot;
    }

    /// Starts a turn of a user in a free slot, with pages for `positions`.
    ///
    /// The turn gets its conversation's own sequence, or another one of its user that serves more of the prompt. It is
    /// cut to the last position within the common prefix that it can be continued from. At least the last token of the
    /// prompt is left to run. Returns `None`, without a change, if the allocated pages are not enough.
    pub fn begin(
        &mut self,
        owner: Option<Owner>,
        user: u32,
        prompt: Wanted<'_>,
        positions: usize,
    ) -> Option<Turn> {
        let tokens = prompt.tokens;
        let most = tokens.len().saturating_sub(1);
        let positions = positions.max(tokens.len());
        let own = owner.and_then(|owner| self.sequence_of(owner));
        if own.is_some_and(|own| self.is_launched(own)) {
            return None;
        }
        let common =
            |sequence: &Sequence| sequence.common_prefix(user, prompt, self.reuse).min(most);
        let shared = |sequence: &Sequence| sequence.usable(&self.layout, common(sequence));
        let rank =
            |(id, sequence): (&u64, &Sequence)| (shared(sequence), Some(*id) == own, sequence.used);
        let source = self.sequences.iter().max_by_key(|one| rank(*one));
        let source = source.map(|(id, sequence)| (*id, shared(sequence)));
        let source = source.filter(|(_, shared)| *shared > 0);
        let longest = self.sequences.values().map(common).max().unwrap_or(0);
        let longest = (self.layout).whole(|at| tokens.get(at).copied(), longest);
        // Sharing the pages of a running turn costs no pages. Sharing those of an idle one may need too many in total.
        let run = self.shared_with_running(user, prompt, &[]);
        let sources = [
            (source, true, longest),
            (source, false, 0),
            (run, true, 0),
            (None, false, 0),
        ];
        let planned = sources.into_iter().find_map(|(source, inherits, common)| {
            let plan = self.plan(source, (tokens.len(), common), positions, inherits);
            let fits = self.fits(&plan, &[], self.pool.allocated());
            fits.then_some((source, plan))
        });
        let (source, plan) = planned?;
        let (source, cached) = source.unzip();
        let cached = cached.unwrap_or(0);
        let ended = source.filter(|id| self.is_continued(*id, cached));
        let last = self.slots[self.active].sequence;

        self.turns += 1;
        let id = own.or(ended).unwrap_or(self.turns);
        let slot = self.slot_for(id)?;
        let before = self
            .sequences
            .get(&id)
            .map(|one| (one.owner, one.user, one.tokens.len()));
        let kept = if own.is_some() && source != own {
            self.sequences.get(&id).map_or(0, shared)
        } else {
            cached
        };
        let restored = owner.is_some_and(|owner| self.lost.remove(&owner));
        let change = match before {
            _ if restored => Change::Restored,
            _ if last.is_none() => Change::NewTurn,
            Some((of, whose, held)) if last == Some(id) && (of, whose) == (owner, user) => {
                match kept {
                    kept if kept == held => Change::NewTurn,
                    0 => Change::Cleared,
                    _ => Change::Rewound,
                }
            }
            _ => Change::Switched,
        };
        let held = source.map_or_else(Vec::new, |id| self.sequences[&id].tokens[..cached].to_vec());
        let copies = self.take_over((id, user), &plan);
        let sequence = self.sequences.entry(id).or_default();
        debug_assert!(
            sequence.tables.holds(&self.layout, cached),
            "the first {cached} positions were overwritten"
        );
        sequence.tokens = held;
        let state = sequence.state_at(&self.layout, cached);
        (sequence.owner, sequence.user, sequence.used) = (owner, user, self.turns);
        self.slots[slot].sequence = Some(id);
        self.slots[slot].given = positions.div_ceil(PAGE);
        self.slots[slot].ended = false;
        self.active = slot;
        self.moved = true;
        self.bump();
        Some(Turn {
            slot,
            cached,
            copies,
            state,
            change,
        })
    }

    /// Drops all sequences, because the cache was allocated again.
    pub fn resize(&mut self, slots: usize, pages: (usize, usize)) -> Change {
        self.lose_all();
        self.allocated_again(slots, pages);
        self.bump();
        Change::Resized
    }

    /// Drops all sequences and pages, because the memory of the cache is released. No turn can begin before
    /// `allocated_again`.
    pub fn unload(&mut self) -> Change {
        self.lose_all();
        self.allocated_again(1, (0, 1));
        self.bump();
        Change::Unloaded
    }

    /// Sets the slots and pages of an empty cache.
    pub fn allocated_again(&mut self, slots: usize, (pages, chunk): (usize, usize)) {
        self.pool = Pool::new(pages, chunk);
        (self.refused, self.moved) = (false, true);
        self.slots = vec![Seat::default(); slots.max(1)];
        self.active = 0;
    }

    fn lose_all(&mut self) {
        let owners = self.sequences.values().filter_map(|one| one.owner);
        self.lost.extend(owners);
        self.sequences.clear();
    }

    /// Adds a generated token to the active turn.
    pub fn push(&mut self, token: u32) {
        self.push_to(self.active, token);
    }

    /// Adds a generated token to the turn in a slot.
    pub fn push_to(&mut self, slot: usize, token: u32) {
        if let Some(sequence) = self.at_mut(slot) {
            sequence.tokens.push((token, Family::Step));
        }
    }

    /// Adds prefilled tokens to the active turn.
    pub fn extend(&mut self, tokens: &[u32]) {
        if let Some(sequence) = self.at_mut(self.active) {
            let read = tokens.iter().map(|token| (*token, Family::Prompt));
            sequence.tokens.extend(read);
        }
    }

    fn bump(&mut self) {
        self.epoch += 1;
    }

    fn at(&self, slot: usize) -> Option<&Sequence> {
        let id = self.slots.get(slot)?.sequence?;
        self.sequences.get(&id)
    }

    fn at_mut(&mut self, slot: usize) -> Option<&mut Sequence> {
        let id = self.slots.get(slot)?.sequence?;
        self.sequences.get_mut(&id)
    }

    fn sequence_of(&self, owner: Owner) -> Option<u64> {
        let mut all = self.sequences.iter();
        all.find(|(_, one)| one.owner == Some(owner))
            .map(|(id, _)| *id)
    }

    fn runs(&self, id: u64) -> bool {
        let mut seats = self.slots.iter();
        seats.any(|seat| seat.keeps_pages() && seat.sequence == Some(id))
    }

    /// Whether a step may still write to the pages of a conversation.
    #[must_use]
    pub fn is_launched_of(&self, owner: Owner) -> bool {
        self.sequence_of(owner)
            .is_some_and(|id| self.is_launched(id))
    }

    fn is_launched(&self, id: u64) -> bool {
        let mut seats = self.slots.iter();
        seats.any(|seat| seat.launched && seat.sequence == Some(id))
    }

    /// Whether a prompt with this common prefix continues a sequence without an owner from its end.
    fn is_continued(&self, id: u64, shared: usize) -> bool {
        let sequence = &self.sequences[&id];
        sequence.owner.is_none() && !self.runs(id) && sequence.tokens.len() == shared
    }
}

impl Sequence {
    /// Drops the pages that its tokens and checkpoints do not need, and returns them.
    fn trim(&mut self, layout: &Layout) -> Vec<usize> {
        let tokens = self.tokens.len();
        let before = self.pages();
        // Without its state, a checkpoint is of no use.
        let holds = |one: &Checkpoint| one.position <= tokens && (one.filled || layout.state == 0);
        self.checkpoints.retain(holds);
        let positions: Vec<_> = self.checkpoints.iter().map(|one| one.position).collect();
        self.tables.trim(layout, tokens, &positions);
        before.difference(&self.pages()).copied().collect()
    }

    /// Replaces every page by `new(page)`, and drops those that it returns `None` for.
    fn replace(&mut self, mut new: impl FnMut(usize) -> Option<usize>) {
        self.tables.replace(&mut new);
        self.checkpoints.retain_mut(|one| {
            let pieces: Option<Vec<_>> = one.pieces.iter().map(|page| new(*page)).collect();
            let stays = pieces.is_some();
            one.pieces = pieces.unwrap_or_default();
            stays
        });
    }

    /// All pages, each once.
    fn pages(&self) -> BTreeSet<usize> {
        self.used_pages().collect()
    }

    /// All pages. Those of a ring appear several times.
    fn used_pages(&self) -> impl Iterator<Item = usize> + '_ {
        let pieces = self.checkpoints.iter().flat_map(|one| &one.pieces);
        self.tables.used_pages().chain(pieces.copied())
    }

    /// The greatest number of positions, at most `positions`, that later tokens can be computed after.
    fn usable(&self, layout: &Layout, positions: usize) -> usize {
        self.usable_with(layout, positions, |checkpoint| checkpoint.filled)
    }

    /// The same with the checkpoints that `serves` accepts.
    fn usable_with(
        &self,
        layout: &Layout,
        positions: usize,
        serves: impl Fn(&Checkpoint) -> bool,
    ) -> usize {
        let mut usable = positions;
        loop {
            usable = self.computable(layout, usable, &serves);
            let whole = layout.whole(|at| Some(self.tokens.get(at)?.0), usable);
            if whole == usable {
                return usable;
            }
            usable = whole;
        }
    }

    /// The same where images may be cut.
    fn computable(
        &self,
        layout: &Layout,
        positions: usize,
        serves: &impl Fn(&Checkpoint) -> bool,
    ) -> usize {
        let mut usable = self.tables.usable(layout, positions);
        while layout.state > 0 && usable > 0 {
            let serving = self.checkpoints.iter().filter(|one| serves(one));
            let last = serving.map(|one| one.position).filter(|at| *at <= usable);
            let last = last.max().unwrap_or(0);
            usable = self.tables.usable(layout, last);
            if usable == last {
                break;
            }
        }
        usable
    }

    /// Where the recurrent state of a turn begins that continues after `cached` tokens.
    fn state_at(&self, layout: &Layout, cached: usize) -> Option<StateStart> {
        let mut filled = self.checkpoints.iter().filter(|one| one.filled);
        let at = filled.find(|one| one.position == cached);
        let start = at.map_or(StateStart::Empty, |one| {
            StateStart::Pieces(one.pieces.clone())
        });
        (layout.state > 0).then_some(start)
    }

    /// The pages of its tokens.
    fn needed(&self) -> usize {
        self.tokens.len().div_ceil(PAGE)
    }

    /// The length of the longest prefix of a prompt that this sequence holds for `user`.
    fn common_prefix(&self, user: u32, prompt: Wanted<'_>, reuse: Reuse) -> usize {
        if self.user != user {
            return 0;
        }
        common_prefix(&self.tokens, prompt, reuse)
    }
}

#[cfg(test)]
mod tests;
