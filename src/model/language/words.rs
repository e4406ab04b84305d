//! The single tokens of a language, for guides and tool formats. Not here: conversations.

use std::sync::Arc;

use crate::model::tokenizer::{Piece, Place, Tokenizer};

/// The spellings of the tokens around a model's thoughts.
const THINKING: [&str; 2] = ["<think>", "</think>"];

/// A part of a text in which special tokens are spelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Special(u32),
    Text(String),
}

/// A vocabulary, shared with its language.
#[derive(Clone, Debug)]
pub struct Words(pub(super) Arc<Tokenizer>);

impl Words {
    /// Returns one more than the largest id.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.len()
    }

    /// Returns the bytes that a token adds to an answer; empty for a token without text.
    #[must_use]
    pub fn bytes(&self, id: u32) -> &[u8] {
        self.0.bytes(id)
    }

    /// Returns the special tokens and their spellings, which plain text never becomes.
    pub fn specials(&self) -> impl Iterator<Item = (u32, &str)> {
        let all = self.0.specials().iter();
        all.map(|special| (special.id, &*special.spelling))
    }

    /// Returns the tokens that end a turn or a text, ascending.
    #[must_use]
    pub fn ends(&self) -> &[u32] {
        self.0.ends()
    }

    /// Returns the canonical ids of plain text that continues an answer, in which special spellings are text.
    #[must_use]
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        self.0.encode(text, Place::Within, &mut ids);
        ids
    }

    /// Splits a text at the special tokens that are spelled in it.
    #[must_use]
    pub fn parts(&self, text: &str) -> Vec<Part> {
        let pieces = self.0.specials().split(text, |_| true).into_iter();
        let parts = pieces.map(|piece| match piece {
            Piece::Special(special, _) => Part::Special(special.id),
            Piece::Plain(text) => Part::Text(text.to_owned()),
        });
        parts.collect()
    }

    /// Returns the tokens that begin and end the thoughts of a model that thinks.
    #[must_use]
    pub fn thinking(&self) -> Option<[u32; 2]> {
        let [begin, end] = THINKING.map(|spelling| self.0.specials().with_spelling(spelling));
        Some([begin?.id, end?.id])
    }

    /// Whether a prompt ends within thoughts, which some templates begin. An unfinished thought of an earlier answer
    /// does not count, because other special tokens follow it.
    #[must_use]
    pub fn ends_in_thought(&self, prompt: &[u32]) -> bool {
        let Some([begin, _]) = self.thinking() else {
            return false;
        };
        let specials = self.0.specials();
        let mut last = prompt.iter().rev();
        last.find(|token| specials.with_id(**token).is_some()) == Some(&begin)
    }
}
