//! What makes the guesses of an answer, and how many a step has.

use serde::{Deserialize, Serialize};

use super::custom::Custom;

/// How an answer is guessed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guess {
    pub source: Source,
    /// The most tokens of one step.
    pub most: usize,
}

/// What makes the guesses of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Earlier tokens of the same conversation.
    Lookup,
    /// A test.
    Custom(Custom),
}

/// The name of a source in a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Lookup,
    Custom,
}

impl Source {
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Lookup => Kind::Lookup,
            Self::Custom(_) => Kind::Custom,
        }
    }
}

impl Kind {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lookup => "lookup",
            Self::Custom => "custom",
        }
    }
}
