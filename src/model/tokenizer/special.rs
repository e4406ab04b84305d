//! Finds the spellings of added tokens in a text.
//!
//! Text of a caller is guarded before a template renders it (`chat::guard`), and `Class` decides which tokens it may
//! contain.

use std::collections::HashMap;
use std::sync::Arc;

use tokenizers::pre_tokenizers::whitespace::is_word_char;

use super::definition::Flags;

/// The class of an added token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::model) enum Class {
    /// It steers the model (`<|im_end|>`). No caller's text becomes it, and no answer shows it.
    Control,
    /// It is shown, and only templates and answers write it (`<think>`).
    Structure,
    /// It is ordinary text (white space of code, `!`) and matches in every text.
    Text,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::model) struct Special {
    pub(in crate::model) id: u32,
    pub(in crate::model) spelling: Arc<str>,
    pub(in crate::model) class: Class,
    pub(super) flags: Flags,
}

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::model) enum Piece<'a> {
    /// A token, and the part of the text that its match takes.
    Special(&'a Special, &'a str),
    Plain(&'a str),
}

/// The most bytes of a spelling; real ones have fewer than 40. At each beginning of one, this many bytes of a text may
/// be compared.
const LONGEST: usize = 256;

/// Added tokens that are matched together. Spellings that are too long are left out, and of equal spellings only the
/// last is kept.
#[derive(Debug)]
pub(in crate::model) struct Specials {
    /// The tokens in the order of their spellings' bytes.
    sorted: Vec<Special>,
    /// Bytes of the longest spelling.
    longest: usize,
    /// Whether a spelling begins with a byte.
    first: [bool; 256],
    /// The index of the first token with an id.
    by_id: HashMap<u32, usize>,
}

impl Specials {
    pub(super) fn new(specials: impl Iterator<Item = Special>) -> Self {
        let mut sorted: Vec<_> = specials
            .filter(|special| (1..=LONGEST).contains(&special.spelling.len()))
            .collect();
        sorted.reverse();
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

    /// Returns the bytes of the longest spelling.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    pub(in crate::model) fn iter(&self) -> impl Iterator<Item = &Special> {
        self.sorted.iter()
    }

    /// Returns the token with an id.
    pub(in crate::model) fn with_id(&self, id: u32) -> Option<&Special> {
        self.by_id.get(&id).map(|at| &self.sorted[*at])
    }

    /// Returns the token with a spelling.
    pub(in crate::model) fn with_spelling(&self, spelling: &str) -> Option<&Special> {
        let at = (self.sorted).binary_search_by(|special| special.spelling.as_ref().cmp(spelling));
        at.ok().map(|at| &self.sorted[at])
    }

    /// Returns the tokens that agree with the first byte of `text`, then with the first two, and so on while there are
    /// any. Of each group, the first token is the one that ends there, if one does.
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

    /// Returns the longest token that is spelled at the beginning of `text` and that `wanted` accepts.
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

    /// Returns the first token that is spelled in `text` from `at` on, and its position.
    fn next(
        &self,
        text: &str,
        mut at: usize,
        wanted: impl Fn(&Special) -> bool,
    ) -> Option<(usize, &Special)> {
        while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
            if let Some(special) = self.at_start(rest, &wanted) {
                return Some((at, special));
            }
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
        None
    }

    /// Splits a text at the tokens that are spelled in it, leftmost and longest first, whatever their flags.
    pub(in crate::model) fn split<'a>(
        &'a self,
        text: &'a str,
        wanted: impl Fn(&Special) -> bool,
    ) -> Vec<Piece<'a>> {
        let mut pieces = Pieces::of(text);
        let mut from = 0;
        while let Some((begin, special)) = self.next(text, from, &wanted) {
            from = begin + special.spelling.len();
            pieces.push(special, begin, from);
        }
        pieces.finish()
    }

    /// Splits a text at the tokens that match in it, as the `tokenizers` crate does: leftmost and longest first. A
    /// match that its flags refuse hides the text that it covers. The search goes on behind a spelling, even if the
    /// match takes more.
    pub(in crate::model) fn matches<'a>(
        &'a self,
        text: &'a str,
        wanted: impl Fn(&Special) -> bool,
    ) -> Vec<Piece<'a>> {
        let mut pieces = Pieces::of(text);
        let mut from = 0;
        // White space that a match has taken is not searched again.
        let mut blank = 0..0;
        while let Some((begin, special)) = self.next(text, from, &wanted) {
            let end = begin + special.spelling.len();
            if special.class == Class::Text && self.hides(text, (begin, end), &wanted) {
                from = begin + text[begin..].chars().next().map_or(1, char::len_utf8);
                continue;
            }
            from = end;
            let flags = special.flags;
            if flags.single_word && !is_whole_word(&text[..begin], &text[end..]) {
                continue;
            }
            let (mut first, mut last) = (begin, end);
            if flags.lstrip {
                first -= blanks_at_end(&text[pieces.taken.min(begin)..begin], flags.ascii);
            }
            if flags.rstrip {
                if !blank.contains(&end) {
                    blank = end..end + blanks_at_start(&text[end..], flags.ascii);
                }
                last = blank.end;
            }
            pieces.push(special, first, last);
        }
        pieces.finish()
    }

    /// Whether a token that is not text begins within a range and ends behind it: text must not take a part of it.
    fn hides(
        &self,
        text: &str,
        (begin, end): (usize, usize),
        wanted: impl Fn(&Special) -> bool,
    ) -> bool {
        let steers = |special: &Special| special.class != Class::Text && wanted(special);
        let mut within = text[begin..end].char_indices().skip(1);
        within.any(|(at, _)| {
            let other = self.at_start(&text[begin + at..], steers);
            other.is_some_and(|other| begin + at + other.spelling.len() > end)
        })
    }
}

/// A text that is being split.
struct Pieces<'a> {
    text: &'a str,
    cut: Vec<Piece<'a>>,
    /// The end of the last match.
    taken: usize,
}

impl<'a> Pieces<'a> {
    fn of(text: &'a str) -> Self {
        Self {
            text,
            cut: Vec::new(),
            taken: 0,
        }
    }

    /// Adds a token whose match takes `first..last`, of which an earlier match may have taken a part. As in
    /// `tokenizers`, the text goes on behind the later match.
    fn push(&mut self, special: &'a Special, first: usize, last: usize) {
        if self.taken < first {
            let plain = &self.text[self.taken..first];
            self.cut.push(Piece::Plain(plain));
        }
        let own = &self.text[first.max(self.taken).min(last)..last];
        self.cut.push(Piece::Special(special, own));
        self.taken = last;
    }

    fn finish(mut self) -> Vec<Piece<'a>> {
        if self.taken < self.text.len() {
            self.cut.push(Piece::Plain(&self.text[self.taken..]));
        }
        self.cut
    }
}

fn is_whole_word(before: &str, after: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(is_word_char);
    !is_part(before.chars().next_back()) && !is_part(after.chars().next())
}

fn blanks_at_start(text: &str, ascii: bool) -> usize {
    text.len() - text.trim_start_matches(|c| is_blank(c, ascii)).len()
}

fn blanks_at_end(text: &str, ascii: bool) -> usize {
    text.len() - text.trim_end_matches(|c| is_blank(c, ascii)).len()
}

/// Whether a character is white space. That of ASCII is C's `isspace`.
fn is_blank(c: char, ascii: bool) -> bool {
    c.is_whitespace() && (c.is_ascii() || !ascii)
}
