//! Changes of a conversation between its turns: restoring, rewinding, branching, ending.

use std::ops::Range;

use super::change::{Change, Resting, Runs};
use super::checkpoint::Checkpoint;
use super::prompt::Family;
use super::{Kv, Owner, Sequence};

impl Kv {
    /// The sequence of a conversation, or `None` if it has none or a turn of it runs.
    #[must_use]
    pub fn resting(&self, owner: Owner) -> Option<Resting<'_>> {
        let id = self.sequence_of(owner).filter(|id| !self.runs(*id))?;
        let Sequence {
            tokens,
            tables,
            checkpoints,
            used,
            ..
        } = self.sequences.get(&id)?;
        let mut pages = tables.placed(tokens.len());
        // A prompt that omits earlier thoughts diverges before the last answer.
        let stored = checkpoints.iter().filter(|one| one.filled);
        let last = stored.skip(checkpoints.len().saturating_sub(2));
        for Checkpoint {
            position, pieces, ..
        } in last
        {
            pages.extend(self.layout.pieces(*position).zip(pieces.iter().copied()));
        }
        Some(Resting {
            tokens,
            pages,
            used: (*used, tokens.len()),
        })
    }

    /// Replaces the tokens of a slot, after the pages were restored that the row after them reads. Other pages after the
    /// tokens that it had were not written, and are dropped.
    pub fn restore(&mut self, slot: usize, tokens: &[(u32, Family)]) -> Change {
        let id = self.slots.get(slot).and_then(|seat| seat.sequence);
        if let Some(sequence) = id.and_then(|id| self.sequences.get_mut(&id)) {
            let (before, held) = (sequence.pages(), sequence.tokens.len());
            (sequence.tables).drop_unwritten(&self.layout, held, tokens.len());
            sequence.tokens = tokens.to_vec();
            for page in before.difference(&sequence.pages()) {
                self.pool.leave(*page);
            }
        }
        self.bump();
        Change::Restored
    }

    /// Drops the tokens of the active slot, because a page could not be copied.
    pub fn lose(&mut self) {
        if let Some(sequence) = self.at_mut(self.active) {
            sequence.tokens.clear();
        }
    }

    /// Cuts a conversation to its first `keep` tokens. Returns `None` if it had no more in the cache.
    ///
    /// # Errors
    /// If a turn of it runs, or a step in flight may write to its pages. Then nothing has changed.
    pub fn rewind(&mut self, owner: Owner, keep: usize) -> Result<Option<Change>, Runs> {
        let Some(id) = self.sequence_of(owner) else {
            return Ok(None);
        };
        if self.runs(id) {
            return Err(Runs);
        }
        if self.sequences[&id].tokens.len() <= keep {
            return Ok(None);
        }
        self.cut(id, keep);
        self.moved = true;
        self.bump();
        Ok(Some(if keep == 0 {
            Change::Cleared
        } else {
            Change::Rewound
        }))
    }

    /// Cuts a sequence that does not run to its first `keep` tokens, or to those before an image that would be cut.
    pub(super) fn cut(&mut self, id: u64, keep: usize) {
        // As long as the tables have all elements, they show which pages of a ring were overwritten.
        self.trim(id);
        if let Some(sequence) = self.sequences.get_mut(&id) {
            let whole = (self.layout).whole(|at| Some(sequence.tokens.get(at)?.0), keep);
            sequence.tokens.truncate(whole);
        }
        self.trim(id);
    }

    /// Forgets rows of images that have these numbers, and what follows them, because the numbers stand for another image.
    /// No running turn has such rows. A conversation whose step is in flight keeps them, so that the step must end first.
    pub fn forget_rows(&mut self, numbers: &Range<u32>) {
        let has = |(token, _): &(u32, Family)| numbers.contains(token);
        let first = |one: &Sequence| one.tokens.iter().position(has);
        let all = self.sequences.iter();
        let stale = all.filter_map(|(id, one)| Some((*id, first(one)?)));
        let stale: Vec<_> = stale.filter(|(id, _)| !self.runs(*id)).collect();
        for (id, keep) in stale {
            self.cut(id, keep);
            self.moved = true;
            self.bump();
        }
    }

    /// Ends a conversation. Its tokens can be reused by its user until their pages are evicted.
    pub fn release(&mut self, owner: Owner) {
        let id = self.sequence_of(owner);
        if let Some(sequence) = id.and_then(|id| self.sequences.get_mut(&id)) {
            sequence.owner = None;
        }
        self.lost.remove(&owner);
        self.moved = true;
    }

    /// Starts a conversation with the tokens and pages of another one. The first of both that continues copies the last
    /// page, unless that is full.
    pub fn branch(&mut self, from: Owner, to: Owner) {
        let Some(one) = self.sequence_of(from).map(|id| &self.sequences[&id]) else {
            return;
        };
        let mut branch = one.clone();
        branch.tables = branch.tables.lasting();
        branch.trim(&self.layout);
        branch.owner = Some(to);
        for page in branch.pages() {
            self.pool.share(page);
        }
        self.turns += 1;
        let (id, user) = (self.turns, branch.user);
        self.sequences.insert(id, branch);
        self.bound(id, user);
        self.moved = true;
    }

    /// Drops the sequences of a user that have no owner.
    pub fn erase(&mut self, user: u32) {
        let unowned = |one: &Sequence| one.owner.is_none() && one.user == user;
        let all = self.sequences.iter();
        let all = all.filter(|(id, one)| unowned(one) && !self.runs(**id));
        let erased: Vec<u64> = all.map(|(id, _)| *id).collect();
        for id in erased {
            self.remove(id);
        }
        self.moved = true;
    }
}
