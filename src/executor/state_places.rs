//! Which state of a pool each slot has, and which one its prompt writes.
//!
//! There may be fewer states than slots. This module does not know where states lie, nor which slots run.

use super::step::StateError;
use crate::tape::StatePool;

/// The states of a pool by number. A prompt writes a spare one, which then becomes its slot's.
#[derive(Clone, Debug)]
pub struct StatePlaces {
    pool: StatePool,
    of_slots: Vec<Option<usize>>,
    /// The state that the prompt of each slot writes, and the position that it will have.
    written: Vec<Option<(usize, usize)>>,
    /// The states that belong to no slot and that no prompt writes.
    free: Vec<usize>,
}

impl StatePlaces {
    /// The first slots have a state, as far as there are states that slots may have.
    #[must_use]
    pub fn new(pool: StatePool) -> Self {
        let StatePool { slots, owned, .. } = pool;
        let owned = owned.min(slots);
        Self {
            pool,
            of_slots: (0..slots)
                .map(|slot| Some(slot).filter(|slot| *slot < owned))
                .collect(),
            written: vec![None; slots],
            free: (owned..pool.states()).rev().collect(),
        }
    }

    /// The state of a slot.
    ///
    /// # Errors
    /// If the slot has none.
    pub fn own(&self, slot: usize) -> Result<usize, StateError> {
        let own = self.of_slots.get(slot).copied().flatten();
        own.ok_or(StateError::Missing { slot })
    }

    /// Whether a slot has a state.
    #[must_use]
    pub fn has(&self, slot: usize) -> bool {
        self.own(slot).is_ok()
    }

    /// Whether a slot has a state that its prompt does not need.
    #[must_use]
    pub fn can_lose(&self, slot: usize) -> bool {
        self.has(slot) && self.written[slot].is_none()
    }

    /// Gives a slot that has no state a free one, or that of another slot, which then has none. Returns the state, whose
    /// content is that of another conversation. `is_launched`: a step in flight needs the other slot's state.
    ///
    /// # Errors
    /// If slots have as many states as they may have, or the other slot cannot lose its state.
    pub fn give(
        &mut self,
        slot: usize,
        from: Option<usize>,
        is_launched: bool,
    ) -> Result<usize, StateError> {
        if let Ok(own) = self.own(slot) {
            return Ok(own);
        }
        let owned = self.pool.owned;
        let state = match from {
            Some(from) if self.can_lose(from) && !is_launched => self.of_slots[from].take(),
            None if self.of_slots.iter().flatten().count() < owned => self.free.pop(),
            _ => None,
        };
        let state = state.ok_or(StateError::Owned { owned })?;
        self.of_slots[slot] = Some(state);
        Ok(state)
    }

    /// Makes the states of a slot and of its prompt free.
    pub fn leave(&mut self, slot: usize) {
        self.discard(slot);
        self.free.extend(self.of_slots[slot].take());
    }

    /// The state that a slot's prompt writes, and the position that it will have.
    #[must_use]
    pub fn written(&self, slot: usize) -> Option<(usize, usize)> {
        self.written[slot]
    }

    /// Gives the prompt of a slot that ends at a position a spare state to write, or the one that it had.
    ///
    /// # Errors
    /// If the slot has no state to continue from, or all spare states are in use.
    pub fn reserve(&mut self, slot: usize, end: usize) -> Result<usize, StateError> {
        self.own(slot)?;
        let spares = self.pool.spares;
        let state = match self.written[slot] {
            Some((state, _)) => Some(state),
            None if self.written.iter().flatten().count() < spares => self.free.pop(),
            None => None,
        };
        let state = state.ok_or(StateError::Spares { spares })?;
        self.written[slot] = Some((state, end));
        Ok(state)
    }

    /// Makes the state that a slot's prompt wrote the slot's state, and returns it.
    pub fn swap(&mut self, slot: usize) -> Option<usize> {
        let (written, _) = self.written[slot].take()?;
        let own = self.of_slots[slot].replace(written);
        self.free.extend(own);
        Some(written)
    }

    /// Discards the state that a slot's prompt wrote.
    pub fn discard(&mut self, slot: usize) {
        self.free
            .extend(self.written[slot].take().map(|(state, _)| state));
    }

    /// Discards the states that prompts wrote, except those of the slots that `keeps` names.
    pub fn discard_except(&mut self, keeps: impl Fn(usize) -> bool) {
        for slot in 0..self.written.len() {
            if !keeps(slot) {
                self.discard(slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: StatePool = StatePool {
        slots: 6,
        owned: 3,
        spares: 2,
    };

    #[test]
    fn a_slot_gets_a_free_state_or_that_of_a_slot_without_a_prompt() {
        let mut places = StatePlaces::new(POOL);
        assert_eq!(places.own(3), Err(StateError::Missing { slot: 3 }));
        let none_left = Err(StateError::Owned { owned: 3 });
        assert_eq!(places.give(3, None, false), none_left);
        // A prompt of slot 0 is in progress, and slot 4 has no state to lose.
        places.reserve(0, 64).expect("one is free");
        assert_eq!(places.give(3, Some(0), false), none_left);
        assert_eq!(places.give(3, Some(4), false), none_left);
        let lost = places.own(1);
        assert_eq!(places.give(3, Some(1), true), none_left);
        assert_eq!(places.give(3, Some(1), false), lost);
        assert_eq!((places.own(3), places.has(1)), (lost, false));
        assert_eq!(places.give(3, None, false), lost, "it has one");
        assert_eq!(places.reserve(1, 64), Err(StateError::Missing { slot: 1 }));
        // Its prompt ends, and so it can lose its state.
        let written = places.swap(0).ok_or(StateError::Missing { slot: 0 });
        assert_eq!(places.give(5, Some(0), false), written);
        places.leave(5);
        assert!(places.give(4, None, false).is_ok() && !places.has(5));
    }

    /// Each state has one use, whatever happens, and a slot or a prompt is refused one only at its limit.
    #[test]
    fn no_state_is_lost_or_used_twice() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut places = StatePlaces::new(POOL);
        let mut refused = [0; 2];
        for _ in 0..20_000 {
            let slot = random.usize(0..POOL.slots);
            let owned = (0..POOL.slots).filter(|slot| places.has(*slot)).count();
            let written = (0..POOL.slots).filter(|slot| places.written(*slot).is_some());
            let written = written.count();
            match random.u32(0..8) {
                0..=1 => {
                    let given = places.give(slot, None, false).is_ok();
                    assert!(given || owned == POOL.owned);
                    refused[0] += usize::from(!given);
                }
                2 => {
                    let from = random.usize(0..POOL.slots);
                    let _ = places.give(slot, Some(from), random.bool());
                }
                3..=4 if places.has(slot) => {
                    let reserved = places.reserve(slot, 64).is_ok();
                    assert!(reserved || written == POOL.spares);
                    refused[1] += usize::from(!reserved);
                }
                5 => {
                    places.swap(slot);
                }
                6 => places.discard(slot),
                7 => places.leave(slot),
                _ => {}
            }
            let own = (0..POOL.slots).filter_map(|slot| places.own(slot).ok());
            let written = (0..POOL.slots).filter_map(|slot| places.written(slot));
            let all = own.chain(written.map(|(state, _)| state));
            let mut all: Vec<_> = all.chain(places.free.iter().copied()).collect();
            all.sort_unstable();
            assert!(all.iter().copied().eq(0..POOL.states()), "{all:?}");
        }
        assert!(refused.iter().all(|count| *count > 100), "{refused:?}");
    }
}
