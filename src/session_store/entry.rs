//! The entries of a session's file, as JSON. An entry is never changed after it has been written.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::model::Message;

/// An event in the life of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// The session began. This is the first entry of each file, and occurs only there.
    Opened {
        user: u32,
        name: String,
        /// Seconds since 1970.
        at: u64,
        /// The messages at the beginning, for example a system message.
        messages: Vec<Message>,
        /// The default options of its turns, as the caller gave them.
        options: Map<String, Value>,
    },
    /// The default options of later turns changed.
    Options { options: Map<String, Value> },
    /// A turn ended with an answer.
    Turn(Box<Turn>),
    /// Messages were added without an answer.
    Appended { messages: Vec<Message> },
    /// Turns were undone, with the messages appended after them. `turns` is the number of turns left.
    Rewound { turns: u32 },
}

impl Entry {
    /// Drops the bytes of all images.
    pub fn lose_images(&mut self) {
        let messages = match self {
            Self::Opened { messages, .. } | Self::Appended { messages } => messages,
            Self::Turn(turn) => &mut turn.messages,
            Self::Options { .. } | Self::Rewound { .. } => return,
        };
        messages.iter_mut().for_each(Message::lose_images);
    }
}

/// A turn: its messages and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Seconds since 1970, at its end.
    pub at: u64,
    /// The number of oldest turns that were dropped before this one so that it fits the context.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped: u32,
    pub messages: Vec<Message>,
    pub answer: Message,
    /// Whether the answer was ended from outside.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// The value of the template's `enable_thinking`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<bool>,
    /// The tools that the model was offered, as the caller gave them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<String>,
    pub tokens: Tokens,
}

/// The tokens of a turn and the kernels that computed them: prefill (P) or decode (D). The two families need not agree
/// in the last bits, so a restored session recomputes each token with the family of its origin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// The number of the conversation's earlier tokens that the prompt begins with, each computed by the same family.
    pub kept: usize,
    /// The further tokens of the prompt (P).
    pub prompt: Vec<u32>,
    /// The tokens of the answer without the token that ended it. `None` where its text was cut within a token.
    pub answer: Option<Vec<u32>>,
    /// The number of answer tokens that were decoded (D). The last chosen token is prefilled with the next turn.
    pub said: usize,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde calls it so
fn is_zero(n: &u32) -> bool {
    *n == 0
}
