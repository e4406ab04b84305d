//! What the key-value cache holds: regions, each with the tokens of its positions and the conversation it belongs to.
//!
//! The values themselves live in the executor. Every change of the cache that is not one more token
//! of the same turn goes through here, and bumps the epoch in one place.
//!
//! What was computed for one user never serves another, nor is it looked at: how much of a prompt is held already is told
//! and can be timed, and would tell what others have asked.

/// Whose conversation a region holds; a conversation of one turn has no owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner(pub u64);

/// What happened to the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// A turn continues what the active region holds.
    NewTurn,
    /// Nothing of what the region held is kept.
    Cleared,
    /// Only the first of its tokens are kept.
    Rewound,
    /// Another conversation goes on.
    Switched,
    /// A conversation goes on whose region was lost when the cache was allocated anew.
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
    /// Which region it runs in.
    pub region: usize,
    /// Tokens of its prompt that the region holds, once what is to be copied has been.
    pub cached: usize,
    /// Another region that holds more of its prompt: the first `cached` positions are to be copied from there.
    pub source: Option<usize>,
    pub change: Change,
}

/// The regions, of which one is active.
#[derive(Clone, Debug)]
pub struct Kv {
    regions: Vec<Region>,
    active: usize,
    /// Changes so far.
    epoch: u64,
    /// Turns so far.
    turns: u64,
    /// Those whose region went with a cache that was allocated anew.
    lost: Vec<Owner>,
}

#[derive(Clone, Debug, Default)]
struct Region {
    /// Those whose K and V it holds, oldest first.
    tokens: Vec<u32>,
    owner: Option<Owner>,
    /// Whose tokens these are, also when the conversation has ended.
    user: u32,
    /// The turn that used it last; 0 if none has.
    used: u64,
    /// A turn runs in it, which must not lose it.
    pinned: bool,
}

impl Kv {
    /// `slots` empty regions, at least one.
    #[must_use]
    pub fn new(slots: usize) -> Self {
        Self {
            regions: vec![Region::default(); slots.max(1)],
            active: 0,
            epoch: 0,
            turns: 0,
            lost: Vec::new(),
        }
    }

    /// Tokens in the active region.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len_of(self.active)
    }

    /// Tokens in a region.
    #[must_use]
    pub fn len_of(&self, region: usize) -> usize {
        self.regions[region].tokens.len()
    }

    /// Which region that is.
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

    /// Whether a turn could begin: its conversation has a region, or one of others can be had.
    #[must_use]
    pub fn has_room(&self, owner: Option<Owner>) -> bool {
        let own = |region: &Region| owner.is_some() && region.owner == owner;
        let mut regions = self.regions.iter();
        regions.any(|region| !region.pinned || own(region))
    }

    /// The turn in a region runs on while others begin: none of them gets the region.
    pub fn pin(&mut self, region: usize) {
        self.regions[region].pinned = true;
    }

    /// The turn in a region has ended.
    pub fn unpin(&mut self, region: usize) {
        self.regions[region].pinned = false;
    }

    /// Another of the turns that run goes on.
    pub fn turn_to(&mut self, region: usize) {
        self.active = region;
    }

    /// Starts a turn of a user: finds its region, and cuts that to what it shares with the prompt, or has it hold what
    /// another region shares with it, if that is more. At least the prompt's last token is left to run. The caller knows that
    /// there is room.
    pub fn begin(&mut self, owner: Option<Owner>, user: u32, prompt: &[u32]) -> Turn {
        let region = self.place(owner, user, prompt);
        let restored = owner.is_some_and(|owner| self.take_lost(owner));
        let most = prompt.len().saturating_sub(1);
        let shared = |region: &Region| region.common_prefix(user, prompt).min(most);
        let kept = shared(&self.regions[region]);
        let others = self.regions.iter().map(shared).enumerate();
        let source = others
            .filter(|(_, shared)| *shared > kept)
            .max_by_key(|(_, shared)| *shared);
        let cached = source.map_or(kept, |(_, shared)| shared);
        let held = &mut self.regions[region];
        let before = held.tokens.len();
        held.tokens.truncate(kept);
        held.tokens.extend_from_slice(&prompt[kept..cached]);
        let switched =
            region != self.active || (held.used > 0 && (held.owner, held.user) != (owner, user));
        let change = if restored {
            Change::Restored
        } else if switched {
            Change::Switched
        } else if kept == before {
            Change::NewTurn
        } else if kept == 0 {
            Change::Cleared
        } else {
            Change::Rewound
        };
        self.turns += 1;
        held.owner = owner;
        held.user = user;
        held.used = self.turns;
        self.active = region;
        self.bump();
        Turn {
            region,
            cached,
            source: source.map(|(region, _)| region),
            change,
        }
    }

    /// What the active region holds is lost: what was to be copied there could not be.
    pub fn lose(&mut self) {
        self.regions[self.active].tokens.clear();
    }

    /// Keeps only the first `keep` tokens of a conversation; `None` if the cache held no more of it.
    pub fn rewind(&mut self, owner: Owner, keep: usize) -> Option<Change> {
        let region = self.region_of(owner)?;
        let held = &mut self.regions[region];
        if held.tokens.len() <= keep {
            return None;
        }
        held.tokens.truncate(keep);
        self.bump();
        Some(if keep == 0 {
            Change::Cleared
        } else {
            Change::Rewound
        })
    }

    /// A conversation has ended: its region is free, and its tokens serve what else its user begins with the same.
    pub fn release(&mut self, owner: Owner) {
        if let Some(region) = self.region_of(owner) {
            self.regions[region].owner = None;
        }
        self.take_lost(owner);
    }

    /// The cache was allocated anew, with `slots` regions: all is lost.
    pub fn resize(&mut self, slots: usize) -> Change {
        self.lost
            .extend(self.regions.iter().filter_map(|region| region.owner));
        self.regions = vec![Region::default(); slots.max(1)];
        self.active = 0;
        self.bump();
        Change::Resized
    }

    /// One more token of the turn.
    pub fn push(&mut self, token: u32) {
        self.push_to(self.active, token);
    }

    /// One more token of the turn in a region.
    pub fn push_to(&mut self, region: usize, token: u32) {
        self.regions[region].tokens.push(token);
    }

    /// More tokens of the turn.
    pub fn extend(&mut self, tokens: &[u32]) {
        self.regions[self.active].tokens.extend_from_slice(tokens);
    }

    fn bump(&mut self) {
        self.epoch += 1;
    }

    fn region_of(&self, owner: Owner) -> Option<usize> {
        self.regions
            .iter()
            .position(|region| region.owner == Some(owner))
    }

    fn take_lost(&mut self, owner: Owner) -> bool {
        let at = self.lost.iter().position(|lost| *lost == owner);
        at.map(|at| self.lost.swap_remove(at)).is_some()
    }

    /// The region of the conversation; else a free one, best the one that holds the most of the prompt for this user;
    /// else the one that has not been used for the longest time, whose conversation loses it.
    fn place(&self, owner: Option<Owner>, user: u32, prompt: &[u32]) -> usize {
        if let Some(region) = owner.and_then(|owner| self.region_of(owner)) {
            return region;
        }
        let rank = |region: &Region| {
            let free = region.owner.is_none();
            let shared = free.then(|| region.common_prefix(user, prompt));
            (shared, std::cmp::Reverse(region.used))
        };
        // Of equals the last one is taken, so the first region comes last.
        let regions = self.regions.iter().enumerate().rev();
        regions
            .filter(|(_, region)| !region.pinned)
            .max_by_key(|(_, region)| rank(region))
            .map_or(0, |(index, _)| index)
    }
}

impl Region {
    /// How many of `tokens`, from the first, it holds for `user`.
    fn common_prefix(&self, user: u32, tokens: &[u32]) -> usize {
        if self.user != user {
            return 0;
        }
        self.tokens
            .iter()
            .zip(tokens)
            .take_while(|(held, token)| held == token)
            .count()
    }
}

#[cfg(test)]
mod tests;
