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

mod eviction;
mod memory;
mod moving;
mod pool;

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use clap::ValueEnum;
use serde::Serialize;

use self::pool::Pool;

/// Positions of a page.
pub const PAGE: usize = 64;

/// Sequences that are kept at most, however short they are.
const SEQUENCES: usize = 1024;

/// Whose conversation a sequence is; a conversation of one turn has no owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner(pub u64);

/// What computed a token's K and V.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// It was read, among others.
    Prompt,
    /// It was said, in a step.
    Step,
}

/// What of other sequences, and of a conversation's own past, serves a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Reuse {
    /// What has the same bits as if the conversation had never been interrupted.
    #[default]
    Exact,
    /// All that has the same tokens.
    Fast,
}

/// A prompt: tokens, and which of them were said, and so are to be as steps make them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    pub tokens: &'a [u32],
    /// In their order.
    pub said: &'a [Range<usize>],
}

impl<'a> Wanted<'a> {
    /// All of it is to be read.
    #[must_use]
    pub const fn read(tokens: &'a [u32]) -> Self {
        Self { tokens, said: &[] }
    }

    fn family(&self, at: usize) -> Family {
        let after = self.said.partition_point(|range| range.end <= at);
        match self.said.get(after) {
            Some(range) if range.contains(&at) => Family::Step,
            _ => Family::Prompt,
        }
    }
}

/// What happened to the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// A turn continues what the last one left.
    NewTurn,
    /// Nothing of what the conversation held is kept.
    Cleared,
    /// Only the first of its tokens are kept.
    Rewound,
    /// Another conversation goes on.
    Switched,
    /// A conversation goes on that had lost its pages.
    Restored,
    /// The cache was allocated anew.
    Resized,
}

impl Change {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NewTurn => "new_turn",
            Self::Cleared => "cleared",
            Self::Rewound => "rewound",
            Self::Switched => "switched",
            Self::Restored => "restored",
            Self::Resized => "resized",
        }
    }
}

/// How a turn begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The executor's place for it.
    pub entry: usize,
    /// Tokens of its prompt that its pages hold, once what is to be copied has been.
    pub cached: usize,
    /// A page that others have too: it is to be copied to this one, before anything else is written.
    pub copy: Option<Copied>,
    pub change: Change,
}

/// A page that is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    pub from: usize,
    pub to: usize,
}

/// A sequence that no turn changes.
#[derive(Clone, Copy, Debug)]
pub struct Resting<'a> {
    pub tokens: &'a [(u32, Family)],
    /// Of these tokens.
    pub pages: &'a [usize],
    /// Differs once a turn or a rewind has changed it.
    pub used: (u64, usize),
}

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
    /// Those whose pages went to others, or with a cache that was allocated anew.
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
    /// Those whose K and V its pages hold, oldest first.
    tokens: Vec<(u32, Family)>,
    /// Of its tokens, and of those that the turn which runs may still say.
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

    /// Whether a user's turn of so many positions could begin if those in `leaving` entries gave way: there is an entry for it,
    /// and pages, once those that no turn needs have been given up; unless memory was refused, also those that have none. What
    /// it shares with turns that run counts once.
    #[must_use]
    pub fn has_room(
        &self,
        (user, prompt): (u32, Wanted<'_>),
        positions: usize,
        leaving: &[usize],
    ) -> bool {
        let pages = if self.refused {
            self.pool.allocated()
        } else {
            self.pool.len()
        };
        self.fits(None, positions, leaving, pages)
            || self
                .shared_with_running(user, prompt, leaving)
                .is_some_and(|source| self.fits(Some(source), positions, leaving, pages))
    }

    /// Pages that the turns of a user have which run, each once, and those that another would take besides.
    #[must_use]
    pub fn pages_of_user(
        &self,
        (user, prompt): (u32, Wanted<'_>),
        positions: usize,
    ) -> (usize, usize) {
        let runs = self
            .sequences
            .iter()
            .filter(|(id, one)| one.user == user && self.runs(**id));
        let theirs: HashSet<_> = runs.flat_map(|(_, one)| &one.pages).collect();
        let source = self.shared_with_running(user, prompt, &[]);
        let shared = source.map_or(0, |(_, tokens)| tokens / PAGE);
        (
            theirs.len(),
            positions.div_ceil(PAGE).saturating_sub(shared),
        )
    }

    /// How many tokens of a user's prompt, from the first, some sequence holds.
    #[must_use]
    pub fn held_of(&self, (user, prompt): (u32, Wanted<'_>)) -> usize {
        let sequences = self.sequences.values();
        let held = sequences.map(|one| one.common_prefix(user, prompt, self.reuse));
        held.max().unwrap_or(0)
    }

    /// The sequence that has most of a user's prompt, and how much, of those that run on.
    fn shared_with_running(
        &self,
        user: u32,
        prompt: Wanted<'_>,
        leaving: &[usize],
    ) -> Option<(u64, usize)> {
        let stays = |entry: &usize| self.entries[*entry].keeps_pages() && !leaving.contains(entry);
        let run = (0..self.entries.len()).filter(stays);
        let run = run.filter_map(|entry| self.entries[entry].sequence);
        let most = prompt.tokens.len().saturating_sub(1);
        let shared = run.filter_map(|id| {
            let sequence = self.sequences.get(&id)?;
            let shared = sequence.common_prefix(user, prompt, self.reuse).min(most);
            (shared > 0).then_some((id, shared))
        });
        shared.max_by_key(|(_, shared)| *shared)
    }

    /// The same of so many pages, if it begins with so many tokens of another sequence.
    fn fits(
        &self,
        source: Option<(u64, usize)>,
        positions: usize,
        leaving: &[usize],
        of: usize,
    ) -> bool {
        let stays = |entry: usize| self.entries[entry].keeps_pages() && !leaving.contains(&entry);
        // It is asked before each step while somebody waits.
        let (mut seats, mut pages, mut held) = (0, 0, vec![false; self.pool.len()]);
        for entry in (0..self.entries.len()).filter(|entry| stays(*entry)) {
            seats += 1;
            for page in self.pages_of(entry) {
                pages += usize::from(!std::mem::replace(&mut held[*page], true));
            }
        }
        // The page that both go on apart in is copied.
        let source =
            source.and_then(|(id, tokens)| self.sequences.get(&id)?.pages.get(..tokens / PAGE));
        let shared = source
            .unwrap_or_default()
            .iter()
            .filter(|page| held[**page])
            .count();
        let takes = positions.div_ceil(PAGE).saturating_sub(shared);
        seats < self.entries.len() && takes <= of - pages
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

    /// The sequence of a conversation whose turn has ended, or `None` if it has none, or one that runs.
    #[must_use]
    pub fn resting(&self, owner: Owner) -> Option<Resting<'_>> {
        let id = self.sequence_of(owner).filter(|id| !self.runs(*id))?;
        let Sequence {
            tokens,
            pages,
            used,
            ..
        } = self.sequences.get(&id)?;
        Some(Resting {
            tokens,
            pages: &pages[..tokens.len().div_ceil(PAGE).min(pages.len())],
            used: (*used, tokens.len()),
        })
    }

    /// Pages that an entry has to itself hold these tokens now, in the place of what they held.
    pub fn restore(&mut self, entry: usize, tokens: &[(u32, Family)]) -> Change {
        if let Some(sequence) = self.at_mut(entry) {
            sequence.tokens = tokens.to_vec();
        }
        self.bump();
        Change::Restored
    }

    /// What the active entry holds is lost: what was to be copied there could not be.
    pub fn lose(&mut self) {
        if let Some(sequence) = self.at_mut(self.active) {
            sequence.tokens.clear();
        }
    }

    /// Keeps only the first `keep` tokens of a conversation; `None` if the cache held no more of it.
    pub fn rewind(&mut self, owner: Owner, keep: usize) -> Option<Change> {
        let id = self.sequence_of(owner)?;
        let sequence = self.sequences.get_mut(&id)?;
        if sequence.tokens.len() <= keep {
            return None;
        }
        sequence.tokens.truncate(keep);
        self.trim(id);
        self.moved = true;
        self.bump();
        Some(if keep == 0 {
            Change::Cleared
        } else {
            Change::Rewound
        })
    }

    /// A conversation has ended: its tokens serve what else its user begins with the same, until their pages are needed.
    pub fn release(&mut self, owner: Owner) {
        let id = self.sequence_of(owner);
        if let Some(sequence) = id.and_then(|id| self.sequences.get_mut(&id)) {
            sequence.owner = None;
        }
        self.lost.remove(&owner);
        self.moved = true;
    }

    /// Another conversation begins with all that one holds, in the same pages: whoever of both goes on first copies the last of
    /// them, if that is not full.
    pub fn branch(&mut self, from: Owner, to: Owner) {
        let Some(one) = self.sequence_of(from).map(|id| &self.sequences[&id]) else {
            return;
        };
        let mut branch = one.clone();
        branch.pages.truncate(branch.needed());
        branch.owner = Some(to);
        for page in &branch.pages {
            self.pool.share(*page);
        }
        self.turns += 1;
        let (id, user) = (self.turns, branch.user);
        self.sequences.insert(id, branch);
        if self.sequences.len() > SEQUENCES {
            self.evict((user, 0), |least, _| least != id);
        }
        self.moved = true;
    }

    /// Nothing of a user's that is nobody's any more serves anybody from now on.
    pub fn erase(&mut self, user: u32) {
        let nobodys = |one: &Sequence| one.owner.is_none() && one.user == user;
        let all = self.sequences.iter();
        let all = all.filter(|(id, one)| nobodys(one) && !self.runs(**id));
        let erased: Vec<u64> = all.map(|(id, _)| *id).collect();
        for id in erased {
            self.remove(id);
        }
        self.moved = true;
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

    /// Has a sequence so many pages, of which the first `cached` positions are those of `source`. Returns what is to be
    /// copied: the page that both begin alike and go on apart in.
    fn take_over(
        &mut self,
        (id, user): (u64, u32),
        source: Option<u64>,
        cached: usize,
        pages: usize,
    ) -> Option<Copied> {
        let held = source.map_or(&[][..], |source| &self.sequences[&source].pages);
        let mut taken: Vec<usize> = held[..cached.div_ceil(PAGE)].to_vec();
        for page in &taken {
            self.pool.share(*page);
        }
        let before = self
            .sequences
            .get_mut(&id)
            .map(|one| std::mem::take(&mut one.pages));
        for page in before.into_iter().flatten() {
            self.pool.leave(page);
        }
        let mut copy = None;
        if !cached.is_multiple_of(PAGE)
            && let Some(from) = taken.last_mut()
        {
            // What else has it may have to give it up.
            while self.pool.is_shared(*from) && copy.is_none() {
                if let Some(to) = self.pool.take() {
                    self.pool.leave(*from);
                    copy = Some(Copied { from: *from, to });
                    *from = to;
                } else if !self.give_up(id, (user, pages)) {
                    break;
                }
            }
        }
        while taken.len() < pages {
            match self.pool.take() {
                Some(page) => taken.push(page),
                None if self.give_up(id, (user, pages)) => {}
                None => break,
            }
        }
        debug_assert!(taken.len() >= pages, "pages were counted before");
        self.sequences.entry(id).or_default().pages = taken;
        if self.sequences.len() > SEQUENCES {
            self.evict((user, 0), |least, _| least != id);
        }
        copy
    }

    /// The entry that a sequence had last; else one that has none, or the one whose sequence was used least lately. None of a
    /// turn that runs.
    fn entry_for(&self, id: u64) -> Option<usize> {
        let rank = |entry: &usize| {
            let sequence = self.entries[*entry].sequence;
            let used = sequence
                .and_then(|id| self.sequences.get(&id))
                .map(|one| one.used);
            (sequence != Some(id), used)
        };
        let free = (0..self.entries.len()).filter(|entry| !self.entries[*entry].keeps_pages());
        free.min_by_key(rank)
    }

    /// Gives up pages that a sequence holds and does not need, or else a sequence with pages. Returns whether there was one
    /// besides `but`, which is to have so many pages for its user, and those of turns that run.
    fn give_up(&mut self, but: u64, wanted: (u32, usize)) -> bool {
        let idle = |id: u64| id != but && !self.runs(id);
        let mut all = self.sequences.iter().filter(|(id, _)| idle(**id));
        let untrimmed = all.find(|(_, one)| one.pages.len() > one.needed());
        if let Some(id) = untrimmed.map(|(id, _)| *id) {
            self.trim(id);
            return true;
        }
        self.evict(wanted, |id, sequence| {
            id != but && !sequence.pages.is_empty()
        })
    }

    /// Forgets the first to go, of those that may be forgotten and that no turn needs, where a user wants so many pages besides
    /// what each has. Returns whether there was one.
    fn evict(&mut self, wanted: (u32, usize), may: impl Fn(u64, &Sequence) -> bool) -> bool {
        let all = self.sequences.iter();
        let all = all.filter(|(id, one)| may(**id, one) && !self.runs(**id));
        let resting = all.map(|(id, one)| eviction::Resting {
            id: *id,
            user: one.user,
            owned: one.owner.is_some(),
            used: one.used,
        });
        let first = eviction::first(resting, &self.held(wanted), self.pool.len());
        let Some(id) = first.map(|one| one.id) else {
            return false;
        };
        let owner = self.remove(id);
        self.lost.extend(owner);
        true
    }

    /// Takes a sequence out, whose pages are left to those that share them; tells whose it was.
    fn remove(&mut self, id: u64) -> Option<Owner> {
        let Sequence { pages, owner, .. } = self.sequences.remove(&id)?;
        pages.into_iter().for_each(|page| self.pool.leave(page));
        owner
    }

    /// Pages of each user, with those that one wants.
    fn held(&self, (user, wanted): (u32, usize)) -> BTreeMap<u32, usize> {
        let mut held = BTreeMap::from([(user, wanted)]);
        // What is shared is shared within a user, and counts once.
        let mut seen = vec![false; self.pool.len()];
        for sequence in self.sequences.values() {
            let pages = sequence.pages.iter();
            let theirs = pages.filter(|page| !std::mem::replace(&mut seen[**page], true));
            *held.entry(sequence.user).or_default() += theirs.count();
        }
        held.retain(|_, pages| *pages > 0);
        held
    }

    /// Gives back the pages beyond a sequence's tokens.
    fn trim(&mut self, id: u64) {
        if let Some(sequence) = self.sequences.get_mut(&id) {
            let needed = sequence.needed().min(sequence.pages.len());
            let pages = sequence.pages.drain(needed..);
            pages.for_each(|page| self.pool.leave(page));
        }
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

/// How many tokens of a prompt, from the first, what was computed of others serves.
#[must_use]
pub fn common_prefix(held: &[(u32, Family)], prompt: Wanted<'_>, reuse: Reuse) -> usize {
    let wanted = prompt.tokens.iter().enumerate();
    let serves = |((token, family), (at, wanted)): &(&(u32, Family), (usize, &u32))| {
        token == *wanted && (reuse == Reuse::Fast || *family == prompt.family(*at))
    };
    held.iter().zip(wanted).take_while(serves).count()
}

#[cfg(test)]
mod tests;
