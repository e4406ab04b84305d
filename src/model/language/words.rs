//! The single tokens of a language, for guides and tool formats. Not here: conversations.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::model::chat::ThoughtTexts;
use crate::model::tokenizer::{Piece, Place, Tokenizer};

/// The spellings of the tokens around a model's thoughts, and the text that follows the first one.
const THINKING: [([&str; 2], &str); 2] = [
    (["<think>", "</think>"], ""),
    (["<|channel>", "<channel|>"], "thought\n"),
];

/// A part of a text in which special tokens are spelled.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Part {
    Special(u32),
    Text(String),
}

/// A vocabulary, shared with its language.
#[derive(Clone, Debug)]
pub struct Words {
    tokenizer: Arc<Tokenizer>,
    thoughts: Arc<ThoughtTexts>,
}

impl Words {
    /// Returns the words of a language; `rendered` renders an answer with thoughts.
    pub(super) fn new(
        tokenizer: Arc<Tokenizer>,
        rendered: impl FnOnce([&str; 2]) -> Option<ThoughtTexts>,
    ) -> Self {
        let mut words = Self {
            tokenizer,
            thoughts: Arc::default(),
        };
        if let Some((marks, heading)) = words.marks() {
            let usual = || ThoughtTexts {
                heading: heading.into(),
                last: "\n".into(),
                apart: if heading.is_empty() { "\n\n" } else { "" }.into(),
            };
            words.thoughts = Arc::new(rendered(marks).unwrap_or_else(usual));
        }
        words
    }

    /// Returns the texts around the thoughts of a model that thinks.
    #[must_use]
    pub fn thoughts(&self) -> &ThoughtTexts {
        &self.thoughts
    }

    /// Returns the spellings around thoughts, and the text that follows the first one.
    fn marks(&self) -> Option<([&'static str; 2], &'static str)> {
        let specials = self.tokenizer.specials();
        let is_known = |marks: &[&str; 2]| {
            let known = |mark: &&str| specials.with_spelling(mark).is_some();
            marks.iter().all(known)
        };
        THINKING.into_iter().find(|(marks, _)| is_known(marks))
    }

    /// Returns one more than the largest id.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.tokenizer.len()
    }

    /// Returns the bytes that a token adds to an answer; empty for a token without text.
    #[must_use]
    pub fn bytes(&self, id: u32) -> &[u8] {
        self.tokenizer.bytes(id)
    }

    /// Returns the special tokens and their spellings, which plain text never becomes.
    pub fn specials(&self) -> impl Iterator<Item = (u32, &str)> {
        let all = self.tokenizer.specials().iter();
        all.map(|special| (special.id, &*special.spelling))
    }

    /// Returns the tokens that end a turn or a text, ascending.
    #[must_use]
    pub fn ends(&self) -> &[u32] {
        self.tokenizer.ends()
    }

    /// Returns the canonical ids of plain text that continues an answer, in which special spellings are text.
    #[must_use]
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        self.tokenizer.encode(text, Place::Within, &mut ids);
        ids
    }

    /// Splits a text at the special tokens that are spelled in it.
    #[must_use]
    pub fn parts(&self, text: &str) -> Vec<Part> {
        let pieces = self.tokenizer.specials().split(text, |_| true).into_iter();
        let parts = pieces.map(|piece| match piece {
            Piece::Special(special, _) => Part::Special(special.id),
            Piece::Plain(text) => Part::Text(text.to_owned()),
        });
        parts.collect()
    }

    /// Returns the tokens that begin and end the thoughts of a model that thinks.
    #[must_use]
    pub fn thinking(&self) -> Option<[u32; 2]> {
        let specials = self.tokenizer.specials();
        let [begin, end] = self.marks()?.0.map(|mark| specials.with_spelling(mark));
        Some([begin?.id, end?.id])
    }

    /// Whether a prompt ends within thoughts, which some templates begin. An unfinished thought of an earlier answer
    /// does not count, because other special tokens follow it.
    #[must_use]
    pub fn ends_in_thought(&self, prompt: &[u32]) -> bool {
        let Some([begin, _]) = self.thinking() else {
            return false;
        };
        let specials = self.tokenizer.specials();
        let mut last = prompt.iter().rev();
        last.find(|token| specials.with_id(**token).is_some()) == Some(&begin)
    }
}
