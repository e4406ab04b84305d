//! Reports about the cache: changes, and how a turn begins.

use super::checkpoint::StateStart;
use super::prompt::Family;
use super::stored::PagePlace;

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
    /// The memory of the cache was released with the model's weights.
    Unloaded,
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
            Self::Unloaded => "unloaded",
        }
    }
}

/// How a turn begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The slot of the turn.
    pub slot: usize,
    /// Tokens of the prompt that are in the cache, after the copy.
    pub cached: usize,
    /// Shared pages that have to be copied before anything else is written: at most one of each group of layers.
    pub copies: Vec<Copied>,
    /// Where the recurrent state begins; `None` if the model has none.
    pub state: Option<StateStart>,
    pub change: Change,
}

/// A turn of a conversation runs, or a step in flight may write to its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runs;

/// A copy from one page to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    pub from: usize,
    pub to: usize,
}

/// A sequence of a conversation without a running turn.
#[derive(Clone, Debug)]
pub struct Resting<'a> {
    pub tokens: &'a [(u32, Family)],
    /// The pages of the tokens, by their places, in order.
    pub pages: Vec<(PagePlace, usize)>,
    /// A version that differs after each turn and rewind.
    pub used: (u64, usize),
}
