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
    /// It is never shown, and never what an assistant's text means.
    pub(in crate::model) control: bool,
}

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::model) enum Piece<'a> {
    Special(&'a Special),
    Plain(&'a str),
}

/// Spellings in bytes; real ones have fewer than 40. Where one begins, as many bytes of a text may be looked at.
const LONGEST: usize = 256;

/// The special tokens of a vocabulary. One of a single character is none of them: it could not be told
/// from text. Nor is one that is too long to look for.
#[derive(Debug)]
pub(in crate::model) struct Specials {
    /// They are in the order of their spellings' bytes.
    sorted: Vec<Special>,
    /// Bytes of the longest spelling.
    longest: usize,
    /// Whether a spelling begins with a byte.
    first: [bool; 256],
    /// Where the first with an id is.
    by_id: HashMap<u32, usize>,
}

impl Specials {
    pub(super) fn new(specials: impl Iterator<Item = Special>) -> Self {
        let mut sorted: Vec<_> = specials
            .filter(|special| special.spelling.chars().nth(1).is_some())
            .filter(|special| special.spelling.len() <= LONGEST)
            .collect();
        sorted.sort_by(|a, b| a.spelling.cmp(&b.spelling));
        sorted.dedup_by(|a, b| a.spelling == b.spelling);
        let mut first = [false; 256];
        for special in &sorted {
            first[usize::from(special.spelling.as_bytes()[0])] = true;
        }
        let mut by_id = HashMap::with_capacity(sorted.len());
        for (at, special) in sorted.iter().enumerate() {
            by_id.entry(special.id).or_insert(at);
        }
        let lengths = sorted.iter().map(|special| special.spelling.len());
        Self {
            longest: lengths.max().unwrap_or(0),
            sorted,
            first,
            by_id,
        }
    }

    /// Bytes of the longest spelling.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Spellings of all of them.
    pub(in crate::model) fn iter(&self) -> impl Iterator<Item = &Special> {
        self.sorted.iter()
    }

    /// The token with an id.
    pub(in crate::model) fn with_id(&self, id: u32) -> Option<&Special> {
        self.by_id.get(&id).map(|at| &self.sorted[*at])
    }

    /// The token with a spelling.
    pub(in crate::model) fn with_spelling(&self, spelling: &str) -> Option<&Special> {
        let at = (self.sorted).binary_search_by(|special| special.spelling.as_ref().cmp(spelling));
        at.ok().map(|at| &self.sorted[at])
    }

    /// Those that agree with the first bytes of `text`: with one, with two, and so on while there are any. Of each,
    /// the first is the one that ends there, if one does.
    fn agreeing(&self, text: &str) -> impl Iterator<Item = &[Special]> {
        let may_begin = |byte: &u8| self.first[usize::from(*byte)];
        let bytes: &[u8] = match text.as_bytes() {
            bytes if bytes.first().is_some_and(may_begin) => bytes,
            _ => &[],
        };
        let mut agreeing = &self.sorted[..];
        bytes.iter().enumerate().map_while(move |(at, byte)| {
            let byte_of = |special: &Special| special.spelling.as_bytes().get(at).copied();
            let begin = agreeing.partition_point(|special| byte_of(special) < Some(*byte));
            let end = agreeing.partition_point(|special| byte_of(special) <= Some(*byte));
            agreeing = &agreeing[begin..end];
            (!agreeing.is_empty()).then_some(agreeing)
        })
    }

    /// The longest special token that is spelled at the beginning of `text` and that `wanted` accepts.
    pub(in crate::model) fn at_start(
        &self,
        text: &str,
        wanted: impl Fn(&Special) -> bool,
    ) -> Option<&Special> {
        (1..)
            .zip(self.agreeing(text))
            .filter_map(|(length, agreeing)| {
                let ends = |special: &&Special| special.spelling.len() == length;
                agreeing.first().filter(ends)
            })
            .filter(|&special| wanted(special))
            .last()
    }

    /// Whether `text` is the beginning of a spelling that `wanted` accepts.
    pub(in crate::model) fn could_start(
        &self,
        text: &str,
        wanted: impl Fn(&Special) -> bool,
    ) -> bool {
        text.len() < self.longest
            && (1..)
                .zip(self.agreeing(text))
                .any(|(length, agreeing)| length == text.len() && agreeing.iter().any(&wanted))
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
