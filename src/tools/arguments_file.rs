//! The table `arguments` of a format's file.

use serde::Deserialize;

use super::format_defect::FormatDefect;
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
    pub(super) fn syntax(self) -> Result<Syntax, FormatDefect> {
        let wrong = |remedy| FormatDefect::value("arguments.argument", &self.argument, remedy);
        let parts = self.argument.split_once(KEY).and_then(|(open, rest)| {
            let (middle, close) = rest.split_once(VALUE)?;
            Some((open, middle, close))
        });
        let Some((open, middle, close)) = parts else {
            return Err(wrong("write {key} in it, and {value} after that"));
        };
        if middle.is_empty() {
            return Err(wrong("write a text between {key} and {value}"));
        }
        if self.is_raw() && close.is_empty() {
            return Err(wrong("write a text after {value}: a raw text ends with it"));
        }
        self.check_text()?;
        self.check_words()?;
        self.check_nested()?;
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

    fn is_raw(&self) -> bool {
        matches!(self.text, TextFile::Style(Style::Raw))
    }

    fn check_text(&self) -> Result<(), FormatDefect> {
        if !self.is_raw() && !self.never.is_empty() {
            return Err(FormatDefect::value(
                "arguments.never",
                &self.never,
                "remove it, or write text = \"raw\": it is only for raw texts",
            ));
        }
        match &self.text {
            TextFile::Marks(marks) if marks.iter().any(String::is_empty) => {
                Err(FormatDefect::value(
                    "arguments.text",
                    marks,
                    "write two marks that are not empty",
                ))
            }
            _ => Ok(()),
        }
    }

    fn check_words(&self) -> Result<(), FormatDefect> {
        for (key, words) in [
            ("arguments.words", &self.words),
            ("arguments.nested.words", &self.nested.words),
        ] {
            let [yes, no, null] = words;
            let remedy = if !words.iter().all(|word| is_word(word)) {
                "write words of the letters A to Z and a to z"
            } else if yes == no || no == null || null == yes {
                "write three different words"
            } else {
                continue;
            };
            return Err(FormatDefect::value(key, words, remedy));
        }
        Ok(())
    }

    /// Checks that arrays and objects can be read. Next to raw texts they are read as JSON.
    fn check_nested(&self) -> Result<(), FormatDefect> {
        const JSON: &str = "remove it, or write another text than \"raw\": arrays and objects next to raw texts are JSON";
        let NestedFile {
            words,
            separator,
            colon,
            bare,
        } = &self.nested;
        if separator.trim() != "," {
            return Err(FormatDefect::value(
                "arguments.nested.separator",
                separator,
                "write a comma, and white space around it if there is some",
            ));
        }
        if colon.trim() != ":" {
            return Err(FormatDefect::value(
                "arguments.nested.colon",
                colon,
                "write a colon, and white space around it if there is some",
            ));
        }
        if self.is_raw() && *words != WORDS {
            return Err(FormatDefect::value("arguments.nested.words", words, JSON));
        }
        if self.is_raw() && *bare {
            return Err(FormatDefect::value("arguments.nested.bare", bare, JSON));
        }
        Ok(())
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
