//! Every address and launch geometry of a step. A recording is valid while they do not change.

use std::ops::Range;

/// Addresses and launches of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Names and addresses of memory that launches share.
    places: Vec<(&'static str, u64)>,
    /// The operation's name of each launch, and the end of its words.
    launches: Vec<(&'static str, usize)>,
    /// Geometry and parameters of the launches, one after another.
    words: Vec<u64>,
}

impl Trace {
    pub fn place(&mut self, name: &'static str, address: u64) {
        self.places.push((name, address));
    }

    pub fn launch(&mut self, operation: &'static str, words: impl IntoIterator<Item = u64>) {
        self.words.extend(words);
        self.launches.push((operation, self.words.len()));
    }

    /// Whether a launch has the same geometry and parameters as in `other`.
    #[must_use]
    pub fn same_launch(&self, other: &Self, index: usize) -> bool {
        let words = |trace: &'_ Self| -> Option<Range<usize>> {
            let end = |index: usize| trace.launches.get(index).map(|(_, end)| *end);
            let from = index.checked_sub(1).map_or(Some(0), end)?;
            Some(from..end(index)?)
        };
        match (words(self), words(other)) {
            (Some(mine), Some(its)) => self.words[mine] == other.words[its],
            _ => false,
        }
    }

    /// The number of launches.
    #[must_use]
    pub fn launches(&self) -> usize {
        self.launches.len()
    }

    /// Describes the first difference from `other`: an address by its name, or a launch.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<String> {
        if self == other {
            return None;
        }
        for ((name, was), (_, is)) in self.places.iter().zip(&other.places) {
            if was != is {
                return Some(format!("{name} moved from {was:#x} to {is:#x}"));
            }
        }
        let mut from = 0;
        for (index, (mine, its)) in self.launches.iter().zip(&other.launches).enumerate() {
            let words = |trace: &Self| trace.words.get(from..mine.1).map(<[u64]>::to_vec);
            if mine != its || words(self) != words(other) {
                return Some(format!("launch {index} ({}) has other parameters", mine.0));
            }
            from = mine.1;
        }
        let (was, is) = (self.launches.len(), other.launches.len());
        Some(format!("{is} launches where there were {was}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(place: u64, words: &[u64]) -> Trace {
        let mut trace = Trace::default();
        trace.place("logits", place);
        trace.launch("embed", [7]);
        trace.launch("head", words.iter().copied());
        trace
    }

    #[test]
    fn a_difference_names_the_moved_address() {
        let was = trace(16, &[1, 2]);
        assert_eq!(was.difference(&was.clone()), None);
        let moved = was.difference(&trace(32, &[1, 2])).expect("a difference");
        assert_eq!(moved, "logits moved from 0x10 to 0x20");
        for words in [&[1, 3][..], &[1], &[1, 2, 3]] {
            let other = was.difference(&trace(16, words)).expect("a difference");
            assert_eq!(other, "launch 1 (head) has other parameters");
        }
    }
}
