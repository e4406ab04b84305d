//! Reports about the cache: changes, and how a turn begins.

use super::prompt::Family;

/// A change of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// A turn continues the sequence of the last turn.
    NewTurn,
    /// The conversation's tokens were dropped.
    Cleared,
    /// The conversation was cut to its first tokens.
    Rewound,
    /// Another conversation became active.
    Switched,
    /// The evicted pages of a conversation were restored.
    Restored,
    /// The cache was allocated again.
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
    /// The slot of the turn.
    pub slot: usize,
    /// Tokens of the prompt that are in the cache, after the copy.
    pub cached: usize,
    /// A shared page that has to be copied before anything else is written.
    pub copy: Option<Copied>,
    pub change: Change,
}

/// A copy from one page to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    pub from: usize,
    pub to: usize,
}

/// A sequence of a conversation without a running turn.
#[derive(Clone, Copy, Debug)]
pub struct Resting<'a> {
    pub tokens: &'a [(u32, Family)],
    /// The pages of the tokens.
    pub pages: &'a [usize],
    /// A version that differs after each turn and rewind.
    pub used: (u64, usize),
}
