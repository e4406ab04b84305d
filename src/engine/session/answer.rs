//! What the model said in a turn.

use crate::model::Message;

/// What the model said in a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub message: Message,
    /// All its tokens, thoughts and calls too, without the end-of-turn token; `None` where the text was cut
    /// within a token, so that the next turn must encode it anew.
    pub tokens: Option<Vec<u32>>,
    /// How many of its tokens steps have run; one that was only chosen is read by the next turn.
    pub said: usize,
}
