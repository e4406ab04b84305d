//! A second implementation of the cache's bookkeeping: the owner of each token sequence, and its slot. A page is as
//! long as the longest conversation here, so each sequence has one page.

use std::collections::HashSet;

use ganglion::kv::Change;

/// A runner of one row has one slot for the active conversation, and one for an idle one.
const ENTRIES: usize = 2;

#[derive(Clone, Debug)]
struct Sequence {
    owner: Option<u64>,
    user: u32,
    last_turn: u64,
    /// The turn that created it.
    first_turn: u64,
    tokens: Vec<u32>,
}

impl Sequence {
    fn shared(&self, user: u32, prompt: &[u32]) -> usize {
        if self.user != user {
            return 0;
        }
        let pairs = self.tokens.iter().zip(&prompt[..prompt.len() - 1]);
        pairs.take_while(|(held, wanted)| held == wanted).count()
    }
}

#[derive(Clone, Debug)]
pub(super) struct Cache {
    pages: usize,
    sequences: Vec<Sequence>,
    /// The sequence of each slot, by the turn that created it.
    entries: [Option<u64>; ENTRIES],
    pub(super) active: usize,
    turns: u64,
    pub(super) epoch: u64,
    /// The sequences with evicted pages.
    bereft: HashSet<u64>,
}

impl Cache {
    pub(super) fn new(pages: usize) -> Self {
        Self {
            pages,
            sequences: Vec::new(),
            entries: [None; ENTRIES],
            active: 0,
            turns: 0,
            epoch: 0,
            bereft: HashSet::new(),
        }
    }

    /// Starts with other, empty pages.
    pub(super) fn replace(&mut self, pages: usize) -> Change {
        let mut bereft = std::mem::take(&mut self.bereft);
        bereft.extend(self.sequences.iter().filter_map(|sequence| sequence.owner));
        *self = Self {
            turns: self.turns,
            epoch: self.epoch + 1,
            bereft,
            ..Self::new(pages)
        };
        Change::Resized
    }

    /// A turn continues its conversation's sequence, or an unowned one that the prompt extends; otherwise it starts a
    /// new one. It shares the longest common prefix of all its user's sequences. If there are more sequences than
    /// pages, sequences of users above an equal share are evicted first, then unowned ones, and the least recently used
    /// first among all these.
    pub(super) fn begin(
        &mut self,
        owner: Option<u64>,
        user: u32,
        prompt: &[u32],
    ) -> (usize, Change) {
        self.turns += 1;
        self.epoch += 1;
        let own = |one: &Sequence| owner.is_some() && one.owner == owner;
        let rank = |one: &&Sequence| (one.shared(user, prompt), own(one), one.last_turn);
        let best = self.sequences.iter().max_by_key(rank).cloned();
        let found = best.as_ref().map_or(0, |best| best.shared(user, prompt));
        let continued =
            best.filter(|best| found > 0 && best.owner.is_none() && best.tokens.len() == found);
        let before = self
            .sequences
            .iter()
            .find(|one| own(one))
            .cloned()
            .or(continued);
        let id = before.as_ref().map_or(self.turns, |one| one.first_turn);

        let before_it = self.entries[self.active];
        let bereft = owner.is_some_and(|owner| self.bereft.remove(&owner));
        let same = before.as_ref().filter(|one| {
            before_it == Some(one.first_turn) && (one.owner, one.user) == (owner, user)
        });
        let change = match same {
            _ if bereft => Change::Restored,
            _ if before_it.is_none() => Change::NewTurn,
            None => Change::Switched,
            Some(same) => match same.shared(user, prompt) {
                kept if kept == same.tokens.len() => Change::NewTurn,
                0 => Change::Cleared,
                _ => Change::Rewound,
            },
        };

        let latest = |entry: &Option<u64>| {
            let of = self
                .sequences
                .iter()
                .find(|one| Some(one.first_turn) == *entry);
            of.map(|one| one.last_turn)
        };
        let places = 0..ENTRIES;
        self.active = places
            .min_by_key(|&at| (self.entries[at] != Some(id), latest(&self.entries[at])))
            .expect("there are two");
        self.entries[self.active] = Some(id);

        self.sequences.retain(|one| one.first_turn != id);
        let held = |cache: &Self| {
            cache
                .sequences
                .iter()
                .filter(|one| !one.tokens.is_empty())
                .count()
        };
        while held(self) >= self.pages {
            let with_tokens = self.sequences.iter().filter(|one| !one.tokens.is_empty());
            // A new sequence needs a page, too.
            let mut users: Vec<u32> = with_tokens.clone().map(|one| one.user).collect();
            users.push(user);
            let theirs = |user| users.iter().filter(|one| **one == user).count();
            let all = users.iter().collect::<HashSet<_>>().len();
            let rested = with_tokens.min_by_key(|one| {
                let above = theirs(one.user) * all > self.pages;
                (!above, one.owner.is_some(), one.last_turn)
            });
            let rested = rested.expect("there are some").first_turn;
            let gone = self
                .sequences
                .extract_if(.., |one| one.first_turn == rested);
            self.bereft.extend(gone.filter_map(|one| one.owner));
        }
        self.sequences.push(Sequence {
            owner,
            user,
            last_turn: self.turns,
            first_turn: id,
            tokens: prompt[..found].to_vec(),
        });
        (found, change)
    }

    pub(super) fn rewind(&mut self, owner: u64, keep: usize) -> Option<Change> {
        let mut all = self.sequences.iter_mut();
        let sequence = all.find(|one| one.owner == Some(owner))?;
        if sequence.tokens.len() <= keep {
            return None;
        }
        sequence.tokens.truncate(keep);
        self.epoch += 1;
        Some(if keep == 0 {
            Change::Cleared
        } else {
            Change::Rewound
        })
    }

    pub(super) fn release(&mut self, owner: u64) {
        self.bereft.remove(&owner);
        for sequence in &mut self.sequences {
            if sequence.owner == Some(owner) {
                sequence.owner = None;
            }
        }
    }

    pub(super) fn push(&mut self, tokens: &[u32]) {
        let id = self.entries[self.active];
        let mut all = self.sequences.iter_mut();
        if let Some(sequence) = all.find(|one| Some(one.first_turn) == id) {
            sequence.tokens.extend_from_slice(tokens);
        }
    }

    /// Returns the tokens of the active slot.
    pub(super) fn held(&self) -> usize {
        let id = self.entries[self.active];
        let mut all = self.sequences.iter();
        let sequence = all.find(|one| Some(one.first_turn) == id);
        sequence.map_or(0, |sequence| sequence.tokens.len())
    }
}
