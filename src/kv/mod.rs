//! What the key-value cache holds: sequences of tokens, the pages that they lie in, and the conversations that they belong to.
//!
//! The values themselves live in the executor. Every change of the cache that is not one more token
//! of the same turn goes through here, and bumps the epoch in one place.
//!
//! Sequences that begin alike share the pages of their beginning, and a page that is shared is copied before anything is
//! written to it (vLLM: Kwon et al. 2023). Steps and prompts are computed by two families of kernels whose last bits differ: a
//! sequence that is to be exact shares only what its own family would have made.
//!
//! Steps are launched before the tokens of those before them have been taken, so a conversation may have ended while a step
//! is yet to write to its pages. These are in quarantine: nobody else gets a page of an entry that a step is of, whatever
//! becomes of its turn, until the steps are over (`Kv::launched`).
//!
//! Pages have memory by chunks. What no turn and no conversation needs, and nobody has used lately, can be given back, but for
//! the pages of one turn more: whoever comes next then has them at once, however little memory others have left.
//!
//! What was computed for one user never serves another, nor is it looked at: how much of a prompt is held already is told
//! and can be timed, and would tell what others have asked.

mod change;
mod conversations;
mod eviction;
mod memory;
mod moving;
mod pages;
mod pool;
mod prompt;
mod room;

use std::collections::{BTreeMap, HashSet};

use self::pool::Pool;

pub use self::change::{Change, Copied, Resting, Turn};
pub use self::prompt::{Family, Reuse, Wanted, common_prefix};

/// Positions of a page.
pub const PAGE: usize = 64;

/// Sequences that are kept at most, however short they are.
const SEQUENCES: usize = 1024;

/// Whose conversation a sequence is; a conversation of one turn has no owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner(pub u64);

/// The sequences, and the executor's entries, of which one is active.
#[derive(Clone, Debug)]
pub struct Kv {
    pool: Pool,
    sequences: BTreeMap<u64, Sequence>,
    /// The sequence of each entry, while a turn runs there or until another begins.
    entries: Vec<Seat>,
    active: usize,
    /// Changes so far.
    epoch: u64,
    /// Turns so far, each of which may have made a sequence.
    turns: u64,
    /// The pages of these owners went to others, or with a cache that was allocated anew.
    lost: HashSet<Owner>,
    reuse: Reuse,
    /// No more memory can be had, until somebody leaves.
    refused: bool,
    /// Whether pages have changed hands since somebody asked.
    moved: bool,
    /// What is nobody's any more and was not used after so many turns has rested long.
    rested: u64,
}

/// An entry of the executor.
#[derive(Clone, Copy, Debug, Default)]
struct Seat {
    sequence: Option<u64>,
    /// A turn runs there, which must not lose its pages.
    pinned: bool,
    /// A step that was launched may still write to its pages.
    launched: bool,
    /// Pages that its turn began with.
    given: usize,
    /// Its turn was pinned and has ended: pages that it did not need are spare.
    ended: bool,
}

impl Seat {
    fn keeps_pages(self) -> bool {
        self.pinned || self.launched
    }
}

#[derive(Clone, Debug, Default)]
struct Sequence {
    /// Its pages hold K and V of these, the oldest first.
    tokens: Vec<(u32, Family)>,
    /// These are for its tokens, and for those that the turn which runs may still say.
    pages: Vec<usize>,
    owner: Option<Owner>,
    /// Whose tokens these are, also when the conversation has ended.
    user: u32,
    /// The turn that used it last.
    used: u64,
}

impl Kv {
    /// So many free pages, which have memory by so many, for turns of at least one entry.
    #[must_use]
    pub fn new(entries: usize, (pages, chunk): (usize, usize), reuse: Reuse) -> Self {
        Self {
            pool: Pool::new(pages, chunk),
            sequences: BTreeMap::new(),
            entries: vec![Seat::default(); entries.max(1)],
            active: 0,
            epoch: 0,
            turns: 0,
            lost: HashSet::new(),
            reuse,
            refused: false,
            moved: true,
            rested: 0,
        }
    }

    /// Tokens of the active entry.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len_of(self.active)
    }

    /// Tokens that an entry's pages hold.
    #[must_use]
    pub fn len_of(&self, entry: usize) -> usize {
        self.at(entry).map_or(0, |sequence| sequence.tokens.len())
    }

    /// The pages of an entry, in the order of their positions.
    #[must_use]
    pub fn pages_of(&self, entry: usize) -> &[usize] {
        self.at(entry).map_or(&[], |sequence| &sequence.pages)
    }

    /// Which entry that is.
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

    /// What of past turns serves others.
    #[must_use]
    pub fn reuse(&self) -> Reuse {
        self.reuse
    }

    /// From now on this serves others.
    pub fn set_reuse(&mut self, reuse: Reuse) {
        self.reuse = reuse;
    }

    /// All pages, and those of them that nobody has, with memory or without.
    #[must_use]
    pub fn pages(&self) -> (usize, usize) {
        let without = self.pool.len() - self.pool.allocated();
        (self.pool.len(), self.pool.free() + without)
    }

    /// The turn of an entry runs on while others begin: none of them gets its pages.
    pub fn pin(&mut self, entry: usize) {
        self.entries[entry].pinned = true;
    }

    /// Whether the turn of an entry runs on while others begin.
    #[must_use]
    pub fn is_pinned(&self, entry: usize) -> bool {
        self.entries[entry].pinned
    }

    /// The turn of an entry has ended: the pages that it did not need are free, once no step may write to them any more, and
    /// its tokens serve what begins alike.
    pub fn unpin(&mut self, entry: usize) {
        self.entries[entry].pinned = false;
        self.entries[entry].ended = true;
        self.leave_spare(entry);
        self.refused = false;
    }

    /// Steps of these entries, and of no others, are launched whose tokens have not been taken: their pages are in quarantine.
    pub fn launched(&mut self, entries: &[usize]) {
        for entry in 0..self.entries.len() {
            let is = entries.contains(&entry);
            let was = std::mem::replace(&mut self.entries[entry].launched, is);
            if was && !is {
                self.leave_spare(entry);
            }
        }
    }

    /// Gives back the pages beyond the tokens of an entry whose turn has ended.
    fn leave_spare(&mut self, entry: usize) {
        let seat = self.entries[entry];
        if let Some(id) = seat.sequence.filter(|_| seat.ended && !seat.keeps_pages()) {
            self.trim(id);
        }
        self.moved = true;
    }

    /// Whether an entry has the pages that its turn began with: one that is not pinned loses them when others need them. Before
    /// the first turn no page is anybody's.
    #[must_use]
    pub fn is_seated(&self, entry: usize) -> bool {
        let Some(seat) = self.entries.get(entry) else {
            return false;
        };
        self.turns == 0
            || self
                .at(entry)
                .is_some_and(|sequence| sequence.pages.len() >= seat.given)
    }

    /// Another of the turns that run goes on.
    pub fn turn_to(&mut self, entry: usize) {
        self.active = entry;
    }

    /// Starts a turn of a user in an entry that is free, with pages for so many positions: its conversation's own, cut
    /// to what they share with the prompt, or those of another sequence, if that shares more. At least the prompt's last token
    /// is left to run. `None` if there is no room in the pages that have memory; nothing has changed then.
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
        let shared =
            |sequence: &Sequence| sequence.common_prefix(user, prompt, self.reuse).min(most);
        let rank =
            |(id, sequence): (&u64, &Sequence)| (shared(sequence), Some(*id) == own, sequence.used);
        let source = self.sequences.iter().max_by_key(|one| rank(*one));
        let source = source.map(|(id, sequence)| (*id, shared(sequence)));
        let source = source.filter(|(_, shared)| *shared > 0);
        // Pages of one that runs cost none; those of one that rests may be too many beside them.
        let sources = [source, self.shared_with_running(user, prompt, &[])];
        let fits = |source: &Option<(u64, usize)>| {
            self.fits(*source, positions, &[], self.pool.allocated())
        };
        let (source, cached) = sources.into_iter().find(fits)?.unzip();
        let cached = cached.unwrap_or(0);
        let ended = source.filter(|id| self.is_continued(*id, cached));
        let last = self.entries[self.active].sequence;

        self.turns += 1;
        let id = own.or(ended).unwrap_or(self.turns);
        let entry = self.entry_for(id)?;
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
        let copy = self.take_over((id, user), source, cached, positions.div_ceil(PAGE));
        let sequence = self.sequences.entry(id).or_default();
        sequence.tokens = held;
        (sequence.owner, sequence.user, sequence.used) = (owner, user, self.turns);
        self.entries[entry].sequence = Some(id);
        self.entries[entry].given = positions.div_ceil(PAGE);
        self.entries[entry].ended = false;
        self.active = entry;
        self.moved = true;
        self.bump();
        Some(Turn {
            entry,
            cached,
            copy,
            change,
        })
    }

    /// The cache was allocated anew: all is lost.
    pub fn resize(&mut self, entries: usize, (pages, chunk): (usize, usize)) -> Change {
        let owners = self.sequences.values().filter_map(|one| one.owner);
        self.lost.extend(owners);
        self.sequences.clear();
        self.pool = Pool::new(pages, chunk);
        (self.refused, self.moved) = (false, true);
        self.entries = vec![Seat::default(); entries.max(1)];
        self.active = 0;
        self.bump();
        Change::Resized
    }

    /// A step has run one more token of the turn.
    pub fn push(&mut self, token: u32) {
        self.push_to(self.active, token);
    }

    /// A step has run one more token of the turn in an entry.
    pub fn push_to(&mut self, entry: usize, token: u32) {
        if let Some(sequence) = self.at_mut(entry) {
            sequence.tokens.push((token, Family::Step));
        }
    }

    /// More tokens of the turn have been read.
    pub fn extend(&mut self, tokens: &[u32]) {
        if let Some(sequence) = self.at_mut(self.active) {
            let read = tokens.iter().map(|token| (*token, Family::Prompt));
            sequence.tokens.extend(read);
        }
    }

    fn bump(&mut self) {
        self.epoch += 1;
    }

    fn at(&self, entry: usize) -> Option<&Sequence> {
        let id = self.entries.get(entry)?.sequence?;
        self.sequences.get(&id)
    }

    fn at_mut(&mut self, entry: usize) -> Option<&mut Sequence> {
        let id = self.entries.get(entry)?.sequence?;
        self.sequences.get_mut(&id)
    }

    fn sequence_of(&self, owner: Owner) -> Option<u64> {
        let mut all = self.sequences.iter();
        all.find(|(_, one)| one.owner == Some(owner))
            .map(|(id, _)| *id)
    }

    fn runs(&self, id: u64) -> bool {
        let mut seats = self.entries.iter();
        seats.any(|seat| seat.keeps_pages() && seat.sequence == Some(id))
    }

    /// Whether a step may still write to the pages of a conversation, whose turn may have ended.
    #[must_use]
    pub fn is_launched_of(&self, owner: Owner) -> bool {
        self.sequence_of(owner)
            .is_some_and(|id| self.is_launched(id))
    }

    fn is_launched(&self, id: u64) -> bool {
        let mut seats = self.entries.iter();
        seats.any(|seat| seat.launched && seat.sequence == Some(id))
    }

    /// Whether a prompt that shares so much goes on from the end of a sequence that is nobody's any more.
    fn is_continued(&self, id: u64, shared: usize) -> bool {
        let sequence = &self.sequences[&id];
        sequence.owner.is_none() && !self.runs(id) && sequence.tokens.len() == shared
    }
}

impl Sequence {
    /// Pages of its tokens.
    fn needed(&self) -> usize {
        self.tokens.len().div_ceil(PAGE)
    }

    /// How many tokens of a prompt, from the first, it holds for `user`.
    fn common_prefix(&self, user: u32, prompt: Wanted<'_>, reuse: Reuse) -> usize {
        if self.user != user {
            return 0;
        }
        common_prefix(&self.tokens, prompt, reuse)
    }
}

#[cfg(test)]
mod tests;
