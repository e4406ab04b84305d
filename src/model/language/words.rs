//! The tokens of a language, one by one, for whoever says which of them may come next. It says nothing of conversations.

use std::sync::Arc;

use crate::model::tokenizer::{Piece, Tokenizer};

/// Spellings between which models think before they answer.
const THINKING: [&str; 2] = ["<think>", "</think>"];

/// A part of a text in which special tokens are spelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Special(u32),
    Text(String),
}

/// A vocabulary that is shared with its language.
#[derive(Clone, Debug)]
pub struct Words(pub(super) Arc<Tokenizer>);

impl Words {
    /// One more than the largest id.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.len()
    }

    /// The bytes that a token adds to an answer; none for one that adds nothing.
    #[must_use]
    pub fn bytes(&self, id: u32) -> &[u8] {
        self.0.bytes(id)
    }

    /// The special tokens and their spellings. No text becomes one of them.
    pub fn specials(&self) -> impl Iterator<Item = (u32, &str)> {
        let all = self.0.specials().iter();
        all.map(|special| (special.id, &*special.spelling))
    }

    /// Tokens that end a turn or a text, ascending.
    #[must_use]
    pub fn ends(&self) -> &[u32] {
        self.0.ends()
    }

    /// The canonical ids of plain text: special spellings are text.
    #[must_use]
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        self.0.encode(text, &mut ids);
        ids
    }

    /// A text cut at the special tokens that are spelled in it.
    #[must_use]
    pub fn parts(&self, text: &str) -> Vec<Part> {
        let pieces = self.0.specials().split(text, |_| true).into_iter();
        let parts = pieces.map(|piece| match piece {
            Piece::Special(special, _) => Part::Special(special.id),
            Piece::Plain(text) => Part::Text(text.to_owned()),
        });
        parts.collect()
    }

    /// The tokens that begin and end the thoughts of a model that thinks.
    #[must_use]
    pub fn thinking(&self) -> Option<[u32; 2]> {
        let [begin, end] = THINKING.map(|spelling| self.0.specials().with_spelling(spelling));
        Some([begin?.id, end?.id])
    }

    /// Whether a prompt ends within thoughts: some templates begin them. An answer of before that did not end its own is
    /// none of it, for other special tokens are behind it.
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
