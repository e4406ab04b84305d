//! Keeps the text of users from becoming special tokens.
//!
//! The template's output is one text, in which a user's `<|im_end|>` looks like the template's. Before rendering, an
//! unused character is therefore inserted after the first character of every special spelling in a message, so that it
//! does not match. Removing the character from the plain pieces afterwards restores the user's text.

use std::collections::HashSet;

use serde_json::Value;

use crate::model::language_error::LanguageError;
use crate::model::tokenizer::{Special, Specials};

/// Protects the messages of one rendering.
#[derive(Debug)]
pub(in crate::model) struct Guard<'a> {
    specials: &'a Specials,
    /// The text that templates write for an image, which is guarded also if it is no special token.
    placeholder: Option<&'a str>,
    sentinel: char,
}

impl<'a> Guard<'a> {
    /// Builds a guard; `texts` are all texts of the rendering.
    pub(super) fn new<'t>(
        specials: &'a Specials,
        placeholder: Option<&'a str>,
        texts: impl Iterator<Item = &'t str>,
    ) -> Result<Self, LanguageError>
    where
        'a: 't,
    {
        let spellings = specials.iter().map(|special| &*special.spelling);
        let sentinel = unused(texts.chain(spellings))?;
        Ok(Self {
            specials,
            placeholder,
            sentinel,
        })
    }

    /// Returns the character that breaks spellings.
    pub(in crate::model) fn mark_character(&self) -> char {
        self.sentinel
    }

    /// Returns `text` with every accepted spelling of a special token broken, including one that only the following
    /// text would complete.
    pub(in crate::model) fn mark(&self, text: &str, guarded: impl Fn(&Special) -> bool) -> String {
        let mut marked = String::with_capacity(text.len());
        for (at, c) in text.char_indices() {
            marked.push(c);
            let rest = text.get(at..).unwrap_or_default();
            if self.specials.at_start(rest, &guarded).is_some()
                || self.specials.could_start(rest, &guarded)
                || self.begins_placeholder(rest)
            {
                marked.push(self.sentinel);
            }
        }
        marked
    }

    /// Whether a text begins with the placeholder of images, or the following text could complete it.
    fn begins_placeholder(&self, text: &str) -> bool {
        let placeholder = self.placeholder.unwrap_or_default();
        !placeholder.is_empty() && (text.starts_with(placeholder) || placeholder.starts_with(text))
    }

    /// Returns JSON with every special spelling in its texts and names broken.
    pub(in crate::model) fn mark_json(&self, json: &Value) -> Value {
        let whole = |text: &String| self.mark(text, |_| true);
        match json {
            Value::String(text) => whole(text).into(),
            Value::Array(each) => each.iter().map(|one| self.mark_json(one)).collect(),
            Value::Object(members) => {
                let marked = members.iter();
                let marked = marked.map(|(name, one)| (whole(name), self.mark_json(one)));
                Value::Object(marked.collect())
            }
            other => other.clone(),
        }
    }

    pub(in crate::model) fn unmark(&self, text: &str) -> String {
        text.replace(self.sentinel, "")
    }
}

/// Returns a character that is in none of the texts.
///
/// # Errors
/// If they have all noncharacters and private-use characters.
pub(in crate::model) fn unused<'t>(
    texts: impl Iterator<Item = &'t str>,
) -> Result<char, LanguageError> {
    let used: HashSet<char> = texts.flat_map(str::chars).filter(|&c| c >= FIRST).collect();
    candidates().find(|c| !used.contains(c)).ok_or_else(|| {
        LanguageError::Refused("it uses every noncharacter and private-use character".into())
    })
}

const FIRST: char = '\u{E000}';

/// Returns noncharacters, then private-use characters.
fn candidates() -> impl Iterator<Item = char> {
    ('\u{FDD0}'..='\u{FDEF}')
        .chain(FIRST..='\u{F8FF}')
        .chain('\u{F0000}'..='\u{FFFFD}')
}
