//! The fixed text around arguments and their values, in symbols.

use std::fmt::Write as _;

use serde_json::Value;

use super::symbols::{Symbol, symbols};
use crate::guide::syntax::{Syntax, Text, Types};

/// The fixed text of a syntax of arguments.
#[derive(Clone, Debug)]
pub(super) struct Delimiters {
    pub(super) open: Vec<Symbol>,
    pub(super) middle: Vec<Symbol>,
    pub(super) close: Vec<Symbol>,
    /// The text before the name of an argument after the first.
    pub(super) next: Vec<Symbol>,
    /// The text after all arguments.
    pub(super) end: Vec<Symbol>,
    pub(super) style: Style,
    pub(super) words: [String; 3],
    pub(super) nested_words: [String; 3],
}

/// The way in which a text is written.
#[derive(Clone, Debug)]
pub(super) enum Style {
    /// Between double quotes, or else single ones if `single` allows them.
    Quoted {
        single: bool,
    },
    Raw,
    Marked {
        begin: Vec<Symbol>,
        end: Vec<Symbol>,
    },
}

impl Delimiters {
    /// `end` follows the arguments of a call.
    pub(super) fn new(syntax: Syntax, end: &[Symbol]) -> Self {
        let open = symbols(syntax.open);
        let mut next = symbols(syntax.separator);
        next.extend(&open);
        Self {
            open,
            middle: symbols(syntax.middle),
            close: symbols(syntax.close),
            next,
            end: end.to_vec(),
            style: match syntax.text {
                Text::Json => Style::Quoted { single: false },
                Text::Python => Style::Quoted { single: true },
                Text::Raw { .. } => Style::Raw,
                Text::Marked { begin, end, .. } => Style::Marked {
                    begin: symbols(begin),
                    end: symbols(end),
                },
            },
            words: syntax.words,
            nested_words: syntax.nested.words,
        }
    }

    /// Returns all symbols of the syntax.
    pub(super) fn all(&self) -> impl Iterator<Item = &Symbol> {
        let marks: [&[Symbol]; 2] = match &self.style {
            Style::Marked { begin, end } => [begin, end],
            _ => [&[], &[]],
        };
        let fixed = [&self.open, &self.middle, &self.close, &self.next];
        fixed
            .into_iter()
            .flatten()
            .chain(marks.into_iter().flatten())
    }

    /// Returns the symbols that may follow a value without quotes.
    pub(super) fn after_value(&self) -> Vec<Symbol> {
        let all = if self.close.is_empty() {
            vec![&self.next, &self.end]
        } else {
            vec![&self.close]
        };
        let first = all.into_iter().filter_map(|text| text.first());
        first.copied().collect()
    }

    /// Returns a value without quotes as JSON: a text, unless it is a value of another one of these types.
    pub(super) fn value(&self, text: &str, types: Types) -> String {
        if let Some(word) = word(&self.words, text).filter(|(_, kind)| types.has(*kind)) {
            return word.0.to_owned();
        }
        if !types.has(Types::TEXT) {
            return text.trim().to_owned();
        }
        let read = serde_json::from_str::<Value>(text);
        let is_other = |value: &Value| !value.is_string() && types.has(Types::of(value));
        match read {
            Ok(value) if is_other(&value) => text.trim().to_owned(),
            _ => Value::from(text).to_string(),
        }
    }
}

/// Returns the word of JSON for one of a format's words for true, false and null, and its type.
pub(super) fn word(words: &[String; 3], text: &str) -> Option<(&'static str, Types)> {
    let json = [
        ("true", Types::BOOLEAN),
        ("false", Types::BOOLEAN),
        ("null", Types::NULL),
    ];
    let at = words.iter().position(|word| word == text)?;
    json.get(at).copied()
}

/// Appends the first symbols that cannot begin `end`, as text of JSON.
pub(super) fn release(held: &mut Vec<Symbol>, end: &[Symbol], json: &mut String) {
    while !end.starts_with(held) {
        if let Symbol::Char(c) = held.remove(0) {
            escape(c, json);
        }
    }
}

/// Appends a character of a text in JSON.
pub(super) fn escape(c: char, json: &mut String) {
    match c {
        '"' | '\\' => json.extend(['\\', c]),
        '\n' => *json += "\\n",
        '\r' => *json += "\\r",
        '\t' => *json += "\\t",
        c if c < ' ' => {
            let _ = write!(json, "\\u{:04x}", u32::from(c));
        }
        c => json.push(c),
    }
}
