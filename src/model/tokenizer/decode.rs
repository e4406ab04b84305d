//! Token ids to text, as they come.

use std::sync::Arc;

/// What each id adds to a text: the bytes of all tokens, one after the other.
#[derive(Debug)]
pub(super) struct Bytes {
    all: Vec<u8>,
    /// Where each id's bytes end.
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

    /// The most bytes that one token stands for.
    pub(super) fn longest(&self) -> usize {
        let starts = std::iter::once(&0).chain(&self.ends);
        let lengths = starts.zip(&self.ends).map(|(start, end)| end - start);
        lengths.max().unwrap_or(0)
    }

    /// Empty for an id that stands for nothing.
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

/// Turns tokens into text and never splits a character: bytes that are not yet one wait for the next
/// token. Control tokens give no text.
#[derive(Clone, Debug)]
pub struct Decoder {
    bytes: Arc<Bytes>,
    /// At most three bytes: the beginning of a character.
    waiting: Vec<u8>,
}

impl Decoder {
    pub(super) fn new(bytes: Arc<Bytes>) -> Self {
        Self {
            bytes,
            waiting: Vec::new(),
        }
    }

    /// The text that `token` completes, perhaps empty. Bytes that can never be part of a character become U+FFFD, and so does
    /// U+0000: no D-Bus string may hold it, and the bus cuts off whoever sends one.
    pub fn push(&mut self, token: u32) -> String {
        self.waiting.extend(self.bytes.of(token));
        let mut text = String::new();
        let mut rest = Vec::new();
        for chunk in self.waiting.utf8_chunks() {
            if !std::mem::take(&mut rest).is_empty() {
                // More came, and it did not complete the character.
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

    /// What is left at the end: U+FFFD for a character that never was completed.
    #[must_use]
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.waiting).into_owned()
    }
}

/// Whether bytes end within a character, which more bytes could complete.
fn is_unfinished(bytes: &[u8]) -> bool {
    matches!(std::str::from_utf8(bytes), Err(error) if error.error_len().is_none())
}
