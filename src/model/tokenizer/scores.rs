//! SentencePiece as llama.cpp runs it: of all adjacent tokens, the two that form the token with the highest score are
//! joined first, the leftmost among equals. Ranks of merges cannot express equal scores, so this is not BPE.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

use super::spelling::Spelling;
use super::vocabulary::Vocabulary;
use crate::model::language_error::LanguageError;

/// Bytes of a text of characters that are no tokens.
const IN_UTF8: [std::ops::RangeInclusive<u8>; 2] = [0x00..=0xBF, 0xC2..=0xF4];

/// A vocabulary with scores.
#[derive(Debug)]
pub(super) struct Scores {
    ids: HashMap<String, u32>,
    /// The score of each id.
    by_id: Vec<f32>,
    /// The token of each byte.
    bytes: [u32; 256],
    /// Bytes of the longest spelling.
    longest: usize,
}

/// A part of a text. Joined parts form a list.
#[derive(Clone, Copy)]
struct Symbol {
    begin: usize,
    /// Empty after it was joined to another.
    end: usize,
    before: Option<usize>,
    after: Option<usize>,
}

/// Two adjacent symbols that form a token.
#[derive(Clone, Copy, Debug)]
struct Pair {
    score: f32,
    left: usize,
    right: usize,
    /// Bytes of both; another length means that one of them was joined meanwhile.
    length: usize,
}

impl Scores {
    /// Builds the model. Every character must be a token, or its bytes must be.
    pub(super) fn new(
        vocabulary: Vocabulary,
        scores: Vec<f32>,
        spelling: &Spelling,
    ) -> Result<Self, LanguageError> {
        if let Some(id) = scores.iter().position(|score| score.is_nan()) {
            let what = format!("the score of token {id} is not a number");
            return Err(LanguageError::Vocabulary(what));
        }
        let ids = vocabulary.into_ordinary();
        let mut bytes = [u32::MAX; 256];
        for byte in IN_UTF8.into_iter().flatten() {
            let of_character = || {
                let character = byte.is_ascii().then(|| char::from(byte).to_string());
                character.and_then(|character| ids.get(&character))
            };
            let found = ids.get(&spelling.of_byte(byte)).or_else(of_character);
            bytes[usize::from(byte)] = *found.ok_or_else(|| LanguageError::Unsupported {
                what: "tokenizer",
                found: format!("SentencePiece without a token of the byte {byte:#04X}"),
                supported: "SentencePiece with a token of every byte",
            })?;
        }
        Ok(Self {
            longest: ids.keys().map(String::len).max().unwrap_or(0),
            ids,
            by_id: scores,
            bytes,
        })
    }

    /// Appends the ids of a normalized text.
    pub(super) fn encode(&self, text: &str, ids: &mut Vec<u32>) {
        let mut symbols = symbols(text);
        let mut queue: BinaryHeap<_> = (1..symbols.len())
            .filter_map(|right| self.pair(text, &symbols, Some(right - 1), Some(right)))
            .collect();
        while let Some(Pair {
            left,
            right,
            length,
            ..
        }) = queue.pop()
        {
            let (one, other) = (symbols[left], symbols[right]);
            let is_stale = one.begin == one.end || other.begin == other.end;
            if is_stale || other.end - one.begin != length {
                continue;
            }
            symbols[left].end = other.end;
            symbols[left].after = other.after;
            symbols[right].end = other.begin;
            if let Some(after) = other.after {
                symbols[after].before = Some(left);
            }
            queue.extend(self.pair(text, &symbols, one.before, Some(left)));
            queue.extend(self.pair(text, &symbols, Some(left), other.after));
        }
        let mut next = symbols.first().copied();
        while let Some(symbol) = next {
            let spelling = &text[symbol.begin..symbol.end];
            match self.ids.get(spelling) {
                Some(id) => ids.push(*id),
                None => ids.extend(spelling.bytes().map(|byte| self.bytes[usize::from(byte)])),
            }
            next = symbol.after.map(|after| symbols[after]);
        }
    }

    /// Returns a pair of symbols that form a token.
    fn pair(
        &self,
        text: &str,
        symbols: &[Symbol],
        left: Option<usize>,
        right: Option<usize>,
    ) -> Option<Pair> {
        let (left, right) = (left?, right?);
        let (begin, end) = (symbols[left].begin, symbols[right].end);
        let length = end - begin;
        if length > self.longest {
            return None;
        }
        let id = *self.ids.get(&text[begin..end])?;
        Some(Pair {
            score: self.by_id.get(id as usize).copied().unwrap_or(0.0),
            left,
            right,
            length,
        })
    }
}

/// Returns the characters of a text.
fn symbols(text: &str) -> Vec<Symbol> {
    let mut symbols: Vec<Symbol> = Vec::with_capacity(text.len());
    for (at, (begin, character)) in text.char_indices().enumerate() {
        let before = at.checked_sub(1);
        if let Some(before) = before {
            symbols[before].after = Some(at);
        }
        symbols.push(Symbol {
            begin,
            end: begin + character.len_utf8(),
            before,
            after: None,
        });
    }
    symbols
}

impl Ord for Pair {
    /// The greatest has the highest score, and is the leftmost among equals.
    fn cmp(&self, other: &Self) -> Ordering {
        let by_score = self.score.partial_cmp(&other.score);
        let by_place = other.left.cmp(&self.left);
        by_score.unwrap_or(Ordering::Equal).then(by_place)
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Pair {}
