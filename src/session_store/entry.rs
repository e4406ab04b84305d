//! What the entries of a session's file say, as JSON. An entry is never changed afterwards.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::model::Message;

/// One thing that happened to a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// It began: the first entry of each file, and there alone.
    Opened {
        user: u32,
        name: String,
        /// Seconds since 1970.
        at: u64,
        /// What it begins with: a system message, say.
        messages: Vec<Message>,
        /// What its turns start from, as the caller gave it.
        options: Map<String, Value>,
    },
    /// The turns of the session start from this from now on.
    Options { options: Map<String, Value> },
    /// A turn has ended with an answer.
    Turn(Box<Turn>),
    /// Messages were added without an answer.
    Appended { messages: Vec<Message> },
    /// Turns were taken back, and what was appended since: so many are left.
    Rewound { turns: u32 },
}

/// A turn: what was said, and what was answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Seconds since 1970, at its end.
    pub at: u64,
    /// The oldest turns that were dropped before it, so that it fits the context.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped: u32,
    pub messages: Vec<Message>,
    pub answer: Message,
    /// Whether the answer was ended from outside.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// `enable_thinking` of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<bool>,
    /// What the model was offered, as it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<String>,
    pub tokens: Tokens,
}

/// The tokens of a turn, by who made them: what was read as a prompt (P), and what was decoded one after another (D).
/// The two need not agree in the last bits, so that whoever computes them again must know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// How many of the conversation's tokens before it the prompt begins with, each of the family that it was of.
    pub kept: usize,
    /// The prompt goes on with these tokens, which were read: P.
    pub prompt: Vec<u32>,
    /// The answer has these tokens, without what ended it. `None` where its text was cut within a token.
    pub answer: Option<Vec<u32>>,
    /// How many of these were decoded: D. One that was only chosen is read with what comes after it.
    pub said: usize,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde calls it so
fn is_zero(n: &u32) -> bool {
    *n == 0
}
