//! When slots last used their recurrent states, and so which of them loses its state first.
//!
//! This module does not know which slots can lose their states.

/// When slots last used their states, and how many they lost.
#[derive(Debug, Default)]
pub(super) struct StateUse {
    /// Runs so far.
    runs: u64,
    /// The last run of each slot; 0 before the first.
    last: Vec<u64>,
    pub(super) lost: LostStates,
}

/// The number of recurrent states that slots have lost to others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostStates {
    /// Those of idle slots.
    pub idle: u64,
    /// Those of turns that were to continue.
    pub continued: u64,
}

impl StateUse {
    /// Notes that slots run.
    pub(super) fn run(&mut self, slots: &[usize]) {
        self.runs += 1;
        for slot in slots {
            if self.last.len() <= *slot {
                self.last.resize(slot + 1, 0);
            }
            self.last[*slot] = self.runs;
        }
    }

    /// The slot that loses its state first, of slots with whether each is idle.
    pub(super) fn first(&self, slots: impl Iterator<Item = (usize, bool)>) -> Option<usize> {
        let last = |slot: usize| self.last.get(slot).copied().unwrap_or_default();
        let first = slots.min_by_key(|(slot, is_idle)| (!is_idle, last(*slot)));
        first.map(|(slot, _)| slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_idle_slot_loses_its_state_first() {
        let mut uses = StateUse::default();
        for slots in [&[0, 1, 2, 3][..], &[2], &[0, 4]] {
            uses.run(slots);
        }
        let first = |slots: &[(usize, bool)]| uses.first(slots.iter().copied());
        let all = [(0, true), (1, false), (2, true), (3, false), (4, false)];
        assert_eq!(first(&all), Some(2));
        assert_eq!(first(&[all[0], all[1]]), Some(0), "it is idle");
        assert_eq!(first(&[all[4], all[3]]), Some(3));
        assert_eq!(first(&[all[1], (5, false)]), Some(5), "it has never run");
        assert_eq!(first(&[]), None);
    }
}
