//! What is told of the cache: how a turn begins in it, and what happened to it.

use super::prompt::Family;

/// What happened to the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// A turn continues what the last one left.
    NewTurn,
    /// Nothing of what the conversation held is kept.
    Cleared,
    /// Only the first of its tokens are kept.
    Rewound,
    /// Another conversation goes on.
    Switched,
    /// A conversation goes on that had lost its pages.
    Restored,
    /// The cache was allocated anew.
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
    /// The executor's place for it.
    pub entry: usize,
    /// Tokens of its prompt that its pages hold, once what is to be copied has been.
    pub cached: usize,
    /// A page that others have too: it is to be copied to this one, before anything else is written.
    pub copy: Option<Copied>,
    pub change: Change,
}

/// A page that is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    pub from: usize,
    pub to: usize,
}

/// A sequence that no turn changes.
#[derive(Clone, Copy, Debug)]
pub struct Resting<'a> {
    pub tokens: &'a [(u32, Family)],
    /// These pages hold the tokens.
    pub pages: &'a [usize],
    /// Differs once a turn or a rewind has changed it.
    pub used: (u64, usize),
}
