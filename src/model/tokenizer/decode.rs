//! Decodes token ids to text, one by one.

use std::sync::Arc;

/// The text of each id: the bytes of all tokens, one after the other.
#[derive(Debug)]
pub(super) struct Bytes {
    all: Vec<u8>,
    /// The end of each id's bytes.
    ends: Vec<usize>,
}

impl Bytes {
    pub(super) fn new(tokens: impl Iterator<Item = Vec<u8>>) -> Self {
        let mut all = Vec::new();
        let ends = tokens
            .map(|bytes| {
                all.extend(bytes);
                all.len()
            })
            .collect();
        Self { all, ends }
    }

    /// Returns the most bytes of one token.
    pub(super) fn longest(&self) -> usize {
        let starts = std::iter::once(&0).chain(&self.ends);
        let lengths = starts.zip(&self.ends).map(|(start, end)| end - start);
        lengths.max().unwrap_or(0)
    }

    /// Returns the bytes of an id; empty for an id without text.
    pub(super) fn of(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let start = id
            .checked_sub(1)
            .and_then(|before| self.ends.get(before))
            .map_or(0, |&end| end);
        self.ends
            .get(id)
            .and_then(|&end| self.all.get(start..end))
            .unwrap_or_default()
    }
}

/// The spaces that a text loses at its beginning, as in the reference decoders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Lead {
    #[default]
    Kept,
    /// At most this number of spaces, whichever tokens have them.
    Spaces(usize),
    /// All marks of spaces in the first token with text.
    FirstToken,
}

/// Decodes tokens and never splits a character: incomplete bytes wait for the next token. Control tokens give no text.
#[derive(Clone, Debug)]
pub struct Decoder {
    bytes: Arc<Bytes>,
    /// The text of each id at the beginning, if it differs there.
    first: Option<Arc<Bytes>>,
    /// The spaces that are still to be lost.
    lead: Lead,
    /// At most three bytes: the beginning of a character.
    waiting: Vec<u8>,
}

impl Decoder {
    pub(super) fn new(bytes: Arc<Bytes>, first: Option<Arc<Bytes>>, lead: Lead) -> Self {
        Self {
            bytes,
            first,
            lead,
            waiting: Vec::new(),
        }
    }

    /// Returns a decoder that keeps all spaces at the beginning of a text.
    #[must_use]
    pub fn whole(self) -> Self {
        Self {
            lead: Lead::Kept,
            ..self
        }
    }

    /// Returns the text that `token` completes, perhaps empty. Invalid bytes become U+FFFD, and so does U+0000: a D-Bus
    /// string cannot contain it, and the bus disconnects its sender.
    pub fn push(&mut self, token: u32) -> String {
        let bytes = self.bytes.of(token);
        match self.lead {
            Lead::FirstToken if !bytes.is_empty() => {
                let first = self.first.as_ref().map_or(bytes, |first| first.of(token));
                self.waiting.extend(first);
                self.lead = Lead::Kept;
            }
            Lead::Spaces(most) if !bytes.is_empty() => {
                let spaces = bytes.iter().take(most).take_while(|byte| **byte == b' ');
                let lost = spaces.count();
                self.waiting.extend(&bytes[lost..]);
                self.lead = if lost == bytes.len() && lost < most {
                    Lead::Spaces(most - lost)
                } else {
                    Lead::Kept
                };
            }
            _ => self.waiting.extend(bytes),
        }
        let mut text = String::new();
        let mut rest = Vec::new();
        for chunk in self.waiting.utf8_chunks() {
            if !std::mem::take(&mut rest).is_empty() {
                // Further bytes did not complete the character.
                text.push(char::REPLACEMENT_CHARACTER);
            }
            text.extend(chunk.valid().chars().map(|character| match character {
                '\0' => char::REPLACEMENT_CHARACTER,
                other => other,
            }));
            let invalid = chunk.invalid();
            if is_unfinished(invalid) {
                rest = invalid.to_vec();
            } else if !invalid.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        self.waiting = rest;
        text
    }

    /// Returns U+FFFD for an incomplete character at the end.
    #[must_use]
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.waiting).into_owned()
    }
}

/// Whether bytes end within a character that more bytes could complete.
fn is_unfinished(bytes: &[u8]) -> bool {
    matches!(std::str::from_utf8(bytes), Err(error) if error.error_len().is_none())
}
