//! What the cache is to hold, written a second time: whose each region is, and which tokens it has.

use std::collections::HashSet;

use ganglion::kv::Change;

/// Of one region.
#[derive(Clone, Debug, Default)]
struct Region {
    owner: Option<u64>,
    user: u32,
    /// 0 if no turn has run there.
    last_turn: u64,
    tokens: Vec<u32>,
}

impl Region {
    fn shared(&self, user: u32, prompt: &[u32]) -> usize {
        if self.user != user {
            return 0;
        }
        let pairs = self.tokens.iter().zip(prompt);
        pairs.take_while(|(held, wanted)| held == wanted).count()
    }
}

#[derive(Clone, Debug)]
pub(super) struct Cache {
    regions: Vec<Region>,
    pub(super) active: usize,
    turns: u64,
    pub(super) epoch: u64,
    /// Whose regions went when all of them were replaced.
    bereft: HashSet<u64>,
}

impl Cache {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            regions: vec![Region::default(); slots],
            active: 0,
            turns: 0,
            epoch: 0,
            bereft: HashSet::new(),
        }
    }

    /// Other regions, all of them empty.
    pub(super) fn replace(&mut self, slots: usize) -> Change {
        let owners = self.regions.iter().filter_map(|region| region.owner);
        self.bereft.extend(owners);
        self.regions = vec![Region::default(); slots];
        self.active = 0;
        self.epoch += 1;
        Change::Resized
    }

    /// A turn keeps its conversation's region; a new one takes a free region that has the most in common with it,
    /// and if none is free the one that has not been used for the longest time; there it has what any region has in
    /// common with it. What other users have said is nothing in common.
    pub(super) fn begin(
        &mut self,
        owner: Option<u64>,
        user: u32,
        prompt: &[u32],
    ) -> (usize, Change) {
        let own = |region: &Region| owner.is_some() && region.owner == owner;
        let mut chosen = self.regions.iter().position(own);
        if chosen.is_none() {
            let mut places: Vec<usize> = (0..self.regions.len()).collect();
            places.sort_by_key(|&place| self.regions[place].last_turn);
            let free = |place: &usize| self.regions[*place].owner.is_none();
            let mut best = places.iter().copied().find(free);
            for place in places.iter().copied().filter(free) {
                let shared = |place: usize| self.regions[place].shared(user, prompt);
                if best.is_some_and(|best| shared(place) > shared(best)) {
                    best = Some(place);
                }
            }
            chosen = best.or(places.first().copied());
        }
        let chosen = chosen.expect("there is a region");
        let shared = self
            .regions
            .iter()
            .map(|region| region.shared(user, prompt));
        let found = shared.max().unwrap_or(0).min(prompt.len() - 1);
        let region = &mut self.regions[chosen];
        let held = region.tokens.len();
        let kept = region.shared(user, prompt).min(prompt.len() - 1);
        let elsewhere = chosen != self.active;
        let another = region.last_turn > 0 && (region.owner, region.user) != (owner, user);
        let bereft = owner.is_some_and(|owner| self.bereft.remove(&owner));
        let change = match (elsewhere || another, kept) {
            _ if bereft => Change::Restored,
            (true, _) => Change::Switched,
            (false, kept) if kept == held => Change::NewTurn,
            (false, 0) => Change::Cleared,
            (false, _) => Change::Rewound,
        };
        self.turns += 1;
        self.epoch += 1;
        self.active = chosen;
        region.tokens = prompt[..found].to_vec();
        (region.owner, region.user, region.last_turn) = (owner, user, self.turns);
        (found, change)
    }

    pub(super) fn rewind(&mut self, owner: u64, keep: usize) -> Option<Change> {
        let mut regions = self.regions.iter_mut();
        let region = regions.find(|region| region.owner == Some(owner))?;
        if region.tokens.len() <= keep {
            return None;
        }
        region.tokens.truncate(keep);
        self.epoch += 1;
        Some(if keep == 0 {
            Change::Cleared
        } else {
            Change::Rewound
        })
    }

    pub(super) fn release(&mut self, owner: u64) {
        self.bereft.remove(&owner);
        for region in &mut self.regions {
            if region.owner == Some(owner) {
                region.owner = None;
            }
        }
    }

    pub(super) fn push(&mut self, tokens: &[u32]) {
        self.regions[self.active].tokens.extend_from_slice(tokens);
    }

    /// Of the active region.
    pub(super) fn held(&self) -> usize {
        self.regions[self.active].tokens.len()
    }
}
