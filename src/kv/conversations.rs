//! What becomes of a conversation between its turns: what it holds rests, comes back, is taken back, or branches.

use super::change::{Change, Resting};
use super::prompt::Family;
use super::{Kv, Owner, PAGE, Sequence};

impl Kv {
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

    /// Keeps only the first `keep` tokens of a conversation; `None` if the cache held no more of it, or a turn of it runs, whose
    /// pages are its own until it ends.
    pub fn rewind(&mut self, owner: Owner, keep: usize) -> Option<Change> {
        let id = self.sequence_of(owner).filter(|id| !self.runs(*id))?;
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
        self.bound(id, user);
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
}
