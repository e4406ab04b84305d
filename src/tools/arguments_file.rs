//! The table `arguments` of a format's file.

use serde::Deserialize;

use crate::guide::syntax::{Nested, Syntax, Text};
use crate::model::language::Part;

/// Placeholders of an argument.
const KEY: &str = "{key}";
const VALUE: &str = "{value}";

/// The words of JSON for true, false and null.
const WORDS: [&str; 3] = ["true", "false", "null"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ArgumentsFile {
    argument: String,
    #[serde(default)]
    separator: String,
    #[serde(default)]
    sorted: bool,
    #[serde(default)]
    text: TextFile,
    /// Texts that no text may contain.
    #[serde(default)]
    never: Vec<String>,
    #[serde(default = "words")]
    words: [String; 3],
    #[serde(default)]
    nested: NestedFile,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Style {
    #[default]
    Json,
    Python,
    Raw,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum TextFile {
    Style(Style),
    Marks([String; 2]),
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct NestedFile {
    words: [String; 3],
    separator: String,
    colon: String,
    bare: bool,
}

impl Default for TextFile {
    fn default() -> Self {
        Self::Style(Style::default())
    }
}

impl Default for NestedFile {
    fn default() -> Self {
        Self {
            words: words(),
            separator: ", ".into(),
            colon: ": ".into(),
            bare: false,
        }
    }
}

fn words() -> [String; 3] {
    WORDS.map(str::to_owned)
}

impl ArgumentsFile {
    /// Returns the syntax, in which special tokens are spelled.
    pub(super) fn syntax(self) -> Result<Syntax, String> {
        let parts = self.argument.split_once(KEY).and_then(|(open, rest)| {
            let (middle, close) = rest.split_once(VALUE)?;
            Some((open, middle, close))
        });
        let Some((open, middle, close)) = parts else {
            return Err(format!("argument has not {KEY} and after it {VALUE}"));
        };
        let words = self.words.iter().chain(&self.nested.words);
        let raw = matches!(self.text, TextFile::Style(Style::Raw));
        let defect = if middle.is_empty() {
            Some("nothing is between {key} and {value}")
        } else if raw && close.is_empty() {
            Some("a raw text has no end: nothing is after {value}")
        } else if !raw && !self.never.is_empty() {
            Some("never is only for raw texts")
        } else if matches!(&self.text, TextFile::Marks(marks) if marks.iter().any(String::is_empty))
        {
            Some("a mark of text is empty")
        } else if !words.clone().all(|word| is_word(word)) {
            Some("a word of words has other characters than letters")
        } else if [&self.nested.separator, &self.nested.colon].map(|text| text.trim()) != [",", ":"]
        {
            Some("items of nested are separated by a comma, and names and values by a colon")
        } else {
            None
        };
        if let Some(defect) = defect {
            return Err(defect.to_owned());
        }
        Ok(Syntax {
            open: part(open),
            middle: part(middle),
            close: part(close),
            separator: part(&self.separator),
            sorted: self.sorted,
            text: match self.text {
                TextFile::Style(Style::Json) => Text::Json,
                TextFile::Style(Style::Python) => Text::Python,
                TextFile::Style(Style::Raw) => Text::Raw { never: self.never },
                TextFile::Marks([begin, end]) => Text::Marked {
                    begin: part(&begin),
                    spelled: end.clone(),
                    end: part(&end),
                },
            },
            words: self.words,
            nested: Nested {
                words: self.nested.words,
                separator: self.nested.separator,
                colon: self.nested.colon,
                bare: self.nested.bare,
            },
        })
    }
}

fn is_word(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_alphabetic())
}

fn part(text: &str) -> Vec<Part> {
    if text.is_empty() {
        Vec::new()
    } else {
        vec![Part::Text(text.to_owned())]
    }
}
