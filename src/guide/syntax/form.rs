//! The parts of a syntax.

use serde::{Deserialize, Serialize};

use crate::model::language::Part;

/// The syntax of the arguments of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Syntax {
    /// The text before the name of an argument.
    pub open: Vec<Part>,
    /// The text between a name and its value.
    pub middle: Vec<Part>,
    /// The text after a value.
    pub close: Vec<Part>,
    /// The text between two arguments.
    pub separator: Vec<Part>,
    /// Whether names are in alphabetical order; otherwise they have the order of the schema.
    pub sorted: bool,
    pub text: Text,
    /// The words for true, false and null.
    pub words: [String; 3],
    pub nested: Nested,
}

/// The way in which a text is written.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Text {
    /// As in JSON.
    Json,
    /// As in Python, between single or double quotes. Within arrays and objects they are double.
    Python,
    /// As it is, without any of these texts. Texts within arrays and objects are as in JSON.
    Raw { never: Vec<String> },
    /// As it is, between two marks.
    Marked {
        begin: Vec<Part>,
        end: Vec<Part>,
        /// The text of `end`, which no text contains.
        spelled: String,
    },
}

/// The syntax of arrays and objects.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Nested {
    /// The words for true, false and null.
    pub words: [String; 3],
    /// The text between two items.
    pub separator: String,
    /// The text between a name and its value.
    pub colon: String,
    /// Whether names have no quotes.
    pub bare: bool,
}

impl Syntax {
    /// Returns the syntax with its texts split at the special tokens of a vocabulary.
    #[must_use]
    pub fn in_words(&self, parts: impl Fn(&str) -> Vec<Part>) -> Self {
        let split = |text: &Vec<Part>| parts(&spelled(text));
        let text = match &self.text {
            Text::Marked {
                begin,
                end,
                spelled,
            } => Text::Marked {
                begin: split(begin),
                end: split(end),
                spelled: spelled.clone(),
            },
            other => other.clone(),
        };
        Self {
            open: split(&self.open),
            middle: split(&self.middle),
            close: split(&self.close),
            separator: split(&self.separator),
            text,
            ..self.clone()
        }
    }

    /// Whether arrays and objects are JSON.
    pub(super) fn nests_json(&self) -> bool {
        let is_json = self.nested.words.iter().eq(&["true", "false", "null"]);
        is_json && !self.nested.bare && !matches!(self.text, Text::Marked { .. })
    }
}

/// Joins the texts of parts without special tokens.
#[must_use]
pub fn spelled(parts: &[Part]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        Part::Special(_) => None,
    });
    texts.collect()
}
