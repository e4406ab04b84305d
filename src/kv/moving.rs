//! Moves sequences into a cache that was allocated again for the same model.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::Kv;
use super::change::{Change, Copied};

impl Kv {
    /// Resizes the cache and keeps sequences, most recently used first, as far as there is room.
    ///
    /// Returns the old and the new page of each copy that is needed. No turn may run.
    pub fn move_to(&mut self, slots: usize, pages: (usize, usize)) -> (Change, Vec<Copied>) {
        let mut all: Vec<_> = std::mem::take(&mut self.sequences).into_iter().collect();
        all.sort_by_key(|(_, sequence)| Reverse(sequence.used));
        let change = self.resize(slots, pages);
        let (mut moved, mut copies) = (HashMap::new(), Vec::new());
        for (id, mut sequence) in all {
            sequence.trim(&self.layout);
            let pages = sequence.pages();
            let unmoved = pages.iter().filter(|page| !moved.contains_key(*page));
            if unmoved.count() > self.pool.free() {
                self.lost.extend(sequence.owner);
                continue;
            }
            for from in pages {
                if let Some(to) = moved.get(&from) {
                    self.pool.share(*to);
                } else if let Some(to) = self.pool.take() {
                    moved.insert(from, to);
                    copies.push(Copied { from, to });
                }
            }
            sequence.replace(|page| moved.get(&page).copied());
            self.sequences.insert(id, sequence);
        }
        (change, copies)
    }
}
