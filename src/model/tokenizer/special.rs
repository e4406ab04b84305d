//! Special tokens: where their spellings occur in a text.
//!
//! Only texts that a chat template wrote are split here; what users wrote is guarded first (`chat::guard`).

use std::collections::HashMap;
use std::sync::Arc;

/// A control or user-defined token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::model) struct Special {
    pub(in crate::model) id: u32,
    pub(in crate::model) spelling: Arc<str>,
    /// Never shown, and never what an assistant's text means.
    pub(in crate::model) control: bool,
}

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::model) enum Piece<'a> {
    Special(&'a Special),
    Plain(&'a str),
}

/// The special tokens of a vocabulary. One of a single character is none of them: it could not be told
/// from text.
#[derive(Debug)]
pub(in crate::model) struct Specials {
    by_spelling: HashMap<Arc<str>, Special>,
    /// Bytes of the spellings, the longest first.
    lengths: Vec<usize>,
    /// Whether a spelling begins with a byte.
    first: [bool; 256],
}

impl Specials {
    pub(super) fn new(specials: impl Iterator<Item = Special>) -> Self {
        let by_spelling: HashMap<_, _> = specials
            .filter(|special| special.spelling.chars().nth(1).is_some())
            .map(|special| (special.spelling.clone(), special))
            .collect();
        let mut lengths: Vec<_> = by_spelling.keys().map(|spelling| spelling.len()).collect();
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        lengths.dedup();
        let mut first = [false; 256];
        for byte in by_spelling.keys().filter_map(|key| key.bytes().next()) {
            first[usize::from(byte)] = true;
        }
        Self {
            by_spelling,
            lengths,
            first,
        }
    }

    /// Bytes of the longest spelling.
    pub(super) fn longest(&self) -> usize {
        self.lengths.first().copied().unwrap_or(0)
    }

    /// Spellings of all of them.
    pub(in crate::model) fn iter(&self) -> impl Iterator<Item = &Special> {
        self.by_spelling.values()
    }

    /// The token with an id.
    pub(in crate::model) fn with_id(&self, id: u32) -> Option<&Special> {
        self.iter().find(|special| special.id == id)
    }

    /// The longest special token that is spelled at the beginning of `text` and that `wanted` accepts.
    pub(in crate::model) fn at_start(
        &self,
        text: &str,
        wanted: impl Fn(&Special) -> bool,
    ) -> Option<&Special> {
        let first = text.bytes().next()?;
        if !self.first[usize::from(first)] {
            return None;
        }
        self.lengths
            .iter()
            .filter_map(|&len| self.by_spelling.get(text.get(..len)?))
            .find(|&special| wanted(special))
    }

    /// Whether `text` is the beginning of a spelling that `wanted` accepts.
    pub(in crate::model) fn could_start(
        &self,
        text: &str,
        wanted: impl Fn(&Special) -> bool,
    ) -> bool {
        let longest = self.lengths.first().copied().unwrap_or(0);
        text.len() < longest
            && text
                .bytes()
                .next()
                .is_some_and(|byte| self.first[usize::from(byte)])
            && self
                .iter()
                .any(|special| special.spelling.starts_with(text) && wanted(special))
    }

    /// Cuts a text at its special tokens, leftmost and longest first.
    pub(in crate::model) fn split<'a>(
        &'a self,
        text: &'a str,
        wanted: impl Fn(&Special) -> bool,
    ) -> Vec<Piece<'a>> {
        let mut pieces = Vec::new();
        let mut plain = 0;
        let mut at = 0;
        while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
            if let Some(special) = self.at_start(rest, &wanted) {
                if plain < at {
                    pieces.push(Piece::Plain(&text[plain..at]));
                }
                pieces.push(Piece::Special(special));
                at += special.spelling.len();
                plain = at;
            } else {
                at += rest.chars().next().map_or(1, char::len_utf8);
            }
        }
        if plain < text.len() {
            pieces.push(Piece::Plain(&text[plain..]));
        }
        pieces
    }
}
