//! The answer of a turn.

use crate::model::Message;

/// The answer of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub message: Message,
    /// All its tokens, including thoughts and calls, without the end-of-turn token; `None` if the text was cut within a token,
    /// so that the next turn must encode it again.
    pub tokens: Option<Vec<u32>>,
    /// How many of its tokens steps have run. The next turn prefills a token that was only chosen.
    pub said: usize,
}
