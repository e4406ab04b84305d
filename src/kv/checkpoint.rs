//! Positions that a sequence can be continued from, and the pages that stay for them.

/// A position that a sequence can be continued from, although its end has moved on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Checkpoint {
    /// The number of tokens before it. `END`, until it is known.
    pub(super) position: usize,
    /// The pages with the recurrent state after these tokens; none if the model has no such state.
    pub(super) pieces: Vec<usize>,
    /// Whether the pieces hold the state.
    pub(super) filled: bool,
}

/// The position of the checkpoint at the end of a turn.
pub(super) const END: usize = usize::MAX;

/// Where the recurrent state of a turn begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateStart {
    /// Before the first token.
    Empty,
    /// After the cached tokens. These pages hold it.
    Pieces(Vec<usize>),
}
