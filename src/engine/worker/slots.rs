//! The active generations, by the slot of the cache that each of them has.

use crate::engine::generation::state::Generation;

/// Generations by slot. They also have an order: that in which they got their slots.
#[derive(Debug, Default)]
pub(super) struct Slots {
    by_slot: Vec<Option<Generation>>,
    /// The slots in use, oldest first.
    order: Vec<usize>,
}

impl Slots {
    /// Adds a generation as the newest, in the slot that it has.
    pub(super) fn insert(&mut self, generation: Generation) {
        let slot = generation.slot();
        if self.by_slot.len() <= slot {
            self.by_slot.resize_with(slot + 1, || None);
        }
        self.by_slot[slot] = Some(generation);
        self.order.push(slot);
    }

    /// Removes and returns the generation in a slot.
    pub(super) fn remove(&mut self, slot: usize) -> Option<Generation> {
        let generation = self.by_slot.get_mut(slot)?.take()?;
        self.order.retain(|used| *used != slot);
        Some(generation)
    }

    /// Removes and returns all generations, oldest first.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Generation> {
        let order = std::mem::take(&mut self.order);
        order
            .into_iter()
            .filter_map(|slot| self.by_slot[slot].take())
    }

    pub(super) fn get(&self, slot: usize) -> Option<&Generation> {
        self.by_slot.get(slot)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, slot: usize) -> Option<&mut Generation> {
        self.by_slot.get_mut(slot)?.as_mut()
    }

    /// Returns the generations, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Generation> {
        self.order.iter().filter_map(|slot| self.get(*slot))
    }

    /// Returns the slots in use, newest first.
    pub(super) fn newest_first(&self) -> Vec<usize> {
        self.order.iter().rev().copied().collect()
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}
