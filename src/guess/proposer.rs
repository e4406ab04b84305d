//! The proposer of one conversation, without the device.
//!
//! Not here: a draft model and the model's head, whose guesses are passes of the device (`engine`).

use std::sync::Arc;

use super::custom::Custom;
use super::lookup::Lookup;
use super::source::Source;

/// Proposes the next tokens of one conversation.
#[derive(Debug)]
pub enum Proposer {
    Lookup(Lookup),
    /// Also the tokens of the conversation.
    Custom(Custom, Vec<u32>),
}

impl Proposer {
    /// Makes a proposer for a conversation without tokens; `None` if the source needs the device.
    #[must_use]
    pub fn new(source: &Source) -> Option<Self> {
        match source {
            Source::Any | Source::Lookup => Some(Self::Lookup(Lookup::default())),
            Source::Draft | Source::Head => None,
            Source::Custom(custom) => Some(Self::Custom(custom.clone(), Vec::new())),
        }
    }

    /// Sets earlier answers of the same user, in which the latest tokens may be found as well, the latest first.
    pub fn set_past(&mut self, answers: Vec<Arc<Lookup>>) {
        if let Self::Lookup(lookup) = self {
            lookup.set_others(answers);
        }
    }

    /// Adds the tokens of the conversation that the proposer has not seen. `tokens` are all of its first ones.
    pub fn follow(&mut self, tokens: &[u32]) {
        let seen = match self {
            Self::Lookup(lookup) => lookup.tokens().len(),
            Self::Custom(_, seen) => seen.len(),
        };
        for token in tokens.iter().skip(seen) {
            self.push(*token);
        }
    }

    /// Adds the next token of the conversation.
    pub fn push(&mut self, token: u32) {
        match self {
            Self::Lookup(lookup) => lookup.push(token),
            Self::Custom(_, seen) => seen.push(token),
        }
    }

    /// Returns at most `most` tokens that may come next, in order.
    #[must_use]
    pub fn propose(&self, most: usize) -> Vec<u32> {
        match self {
            Self::Lookup(lookup) => lookup.propose(most),
            Self::Custom(custom, seen) => {
                let mut tokens = custom.propose(seen, most);
                tokens.truncate(most);
                tokens
            }
        }
    }
}
