//! Guessed tokens, by what guessed them.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What guesses tokens of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Proposer {
    /// Earlier tokens of the same conversation.
    Lookup,
    /// A smaller model.
    Draft,
    /// The model's own head.
    Head,
    /// A test.
    Custom,
}

impl Proposer {
    pub const ALL: [Self; 4] = [Self::Lookup, Self::Draft, Self::Head, Self::Custom];
    /// Those that a user can choose.
    pub const USUAL: [Self; 3] = [Self::Lookup, Self::Draft, Self::Head];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lookup => "lookup",
            Self::Draft => "draft",
            Self::Head => "head",
            Self::Custom => "custom",
        }
    }
}

/// Tokens that were guessed, and those of them that were accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuessCounts {
    pub proposed: u64,
    pub accepted: u64,
}

impl GuessCounts {
    fn add(&mut self, more: Self) {
        self.proposed += more.proposed;
        self.accepted += more.accepted;
    }
}

/// The guesses of each proposer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proposals([GuessCounts; Proposer::ALL.len()]);

impl Proposals {
    /// Adds guesses of a proposer.
    pub fn add(&mut self, proposer: Proposer, counts: GuessCounts) {
        self.0[proposer as usize].add(counts);
    }

    /// Adds the guesses of all proposers.
    pub fn add_all(&mut self, more: Self) {
        for proposer in Proposer::ALL {
            self.add(proposer, more.of(proposer));
        }
    }

    /// Returns the guesses of a proposer.
    #[must_use]
    pub const fn of(&self, proposer: Proposer) -> GuessCounts {
        self.0[proposer as usize]
    }

    /// Returns the guesses of all proposers together.
    #[must_use]
    pub fn all(&self) -> GuessCounts {
        let mut all = GuessCounts::default();
        self.0.iter().for_each(|one| all.add(*one));
        all
    }

    /// Returns the proposers that have guessed anything, and their guesses.
    pub fn guessed(&self) -> impl Iterator<Item = (Proposer, GuessCounts)> + '_ {
        let all = Proposer::ALL.into_iter().zip(self.0);
        all.filter(|(_, counts)| counts.proposed > 0)
    }

    /// Returns the proposer that has guessed the most tokens, if any has.
    #[must_use]
    pub fn most(&self) -> Option<Proposer> {
        let most = self.guessed().max_by_key(|(_, counts)| counts.proposed);
        most.map(|(proposer, _)| proposer)
    }

    /// Whether more than one proposer has guessed.
    #[must_use]
    pub fn are_mixed(&self) -> bool {
        self.guessed().count() > 1
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.guessed().next().is_none()
    }
}

/// By the names of the proposers that have guessed.
impl Serialize for Proposals {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.guessed())
    }
}

impl<'de> Deserialize<'de> for Proposals {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let all = BTreeMap::<Proposer, GuessCounts>::deserialize(deserializer)?;
        let mut proposals = Self::default();
        all.into_iter()
            .for_each(|(proposer, counts)| proposals.add(proposer, counts));
        Ok(proposals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_proposer_has_its_counts() {
        for (at, proposer) in Proposer::ALL.into_iter().enumerate() {
            assert_eq!(proposer as usize, at, "{proposer:?}");
        }
        let counts = |proposed, accepted| GuessCounts { proposed, accepted };
        let mut all = Proposals::default();
        assert!(all.is_empty() && all.most().is_none());
        all.add(Proposer::Lookup, counts(3, 1));
        assert!(!all.is_empty() && !all.are_mixed());
        all.add(Proposer::Draft, counts(7, 6));
        assert_eq!(
            (all.all(), all.most()),
            (counts(10, 7), Some(Proposer::Draft))
        );
        assert!(all.are_mixed());
        let text = serde_json::to_string(&all).expect("it is text");
        assert_eq!(
            text,
            r#"{"lookup":{"proposed":3,"accepted":1},"draft":{"proposed":7,"accepted":6}}"#
        );
        assert_eq!(serde_json::from_str::<Proposals>(&text).ok(), Some(all));
    }
}
