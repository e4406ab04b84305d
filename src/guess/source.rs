//! What makes the guesses of an answer, and how many a step has.

use super::custom::Custom;

/// How an answer is guessed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guess {
    pub source: Source,
    /// The most tokens of one step.
    pub most: usize,
    /// Whether a step has guesses only where they pay by what was measured.
    pub is_auto: bool,
}

/// What makes the guesses of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Earlier tokens of the same conversation where they match, otherwise the draft model, if there is one, and otherwise the
    /// model's head, if it is loaded.
    Any,
    /// Earlier tokens of the same conversation.
    Lookup,
    /// A smaller model.
    Draft,
    /// The model's own head.
    Head,
    /// A test.
    Custom(Custom),
}

impl Source {
    /// Whether a draft model may guess.
    #[must_use]
    pub const fn drafts(&self) -> bool {
        matches!(self, Self::Any | Self::Draft)
    }

    /// Whether the model's head may guess.
    #[must_use]
    pub const fn uses_head(&self) -> bool {
        matches!(self, Self::Any | Self::Head)
    }
}
