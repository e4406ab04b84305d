//! Reads a value that ends by itself, and writes it as JSON.

use std::sync::Arc;

use serde_json::{Number, Value};

use super::delimiters::{Delimiters, Style, escape, release, word};
use super::symbols::Symbol;

/// What a symbol does to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    More,
    /// The symbol ends the value.
    Ended,
    /// The value has ended before the symbol.
    EndedBefore,
}

#[derive(Clone, Debug)]
enum Place {
    /// Outside of texts. The symbols may be the beginning of a mark.
    Outside(Vec<Symbol>),
    Quoted {
        quote: char,
        escaped: bool,
    },
    /// Within a text between marks. The symbols may be the beginning of its end.
    Marked(Vec<Symbol>),
}

/// The state of reading one value.
#[derive(Clone, Debug)]
pub(super) struct ValueReader {
    delimiters: Arc<Delimiters>,
    /// Symbols that may follow a value without quotes.
    ends: Vec<Symbol>,
    /// The arrays and objects around the current value; whether each is an object.
    around: Vec<bool>,
    /// A word, a number or a name without quotes.
    bare: String,
    place: Place,
}

impl ValueReader {
    pub(super) fn new(delimiters: Arc<Delimiters>, ends: Vec<Symbol>) -> Self {
        Self {
            delimiters,
            ends,
            around: Vec::new(),
            bare: String::new(),
            place: Place::Outside(Vec::new()),
        }
    }

    /// Adds a symbol, and appends the JSON that it completes.
    pub(super) fn take(&mut self, symbol: Symbol, json: &mut String) -> Progress {
        let delimiters = self.delimiters.clone();
        match (&mut self.place, &delimiters.style) {
            (Place::Quoted { quote, escaped }, _) => {
                let Symbol::Char(c) = symbol else {
                    return Progress::More;
                };
                if std::mem::take(escaped) {
                    unescape(c, json);
                } else if c == '\\' {
                    *escaped = true;
                } else if c == *quote {
                    return self.end_text(json);
                } else {
                    escape(c, json);
                }
                Progress::More
            }
            (Place::Marked(held), Style::Marked { end, .. }) => {
                held.push(symbol);
                if held == end {
                    return self.end_text(json);
                }
                release(held, end, json);
                Progress::More
            }
            (Place::Outside(held), Style::Marked { begin, .. }) => {
                held.push(symbol);
                if held == begin {
                    json.push('"');
                    self.place = Place::Marked(Vec::new());
                    return Progress::More;
                }
                if begin.starts_with(held) {
                    return Progress::More;
                }
                let mut progress = Progress::More;
                for symbol in std::mem::take(held) {
                    progress = self.outside(symbol, json);
                }
                progress
            }
            _ => self.outside(symbol, json),
        }
    }

    fn outside(&mut self, symbol: Symbol, json: &mut String) -> Progress {
        let is_whole = self.around.is_empty();
        if is_whole && !self.bare.is_empty() && self.ends.contains(&symbol) {
            self.end_bare(json);
            return Progress::EndedBefore;
        }
        let Symbol::Char(c) = symbol else {
            return Progress::More;
        };
        let single = matches!(self.delimiters.style, Style::Quoted { single: true });
        match c {
            '"' | '\'' if c == '"' || single => {
                json.push('"');
                self.place = Place::Quoted {
                    quote: c,
                    escaped: false,
                };
            }
            '{' | '[' => {
                self.around.push(c == '{');
                json.push(c);
            }
            '}' | ']' => {
                self.end_bare(json);
                self.around.pop();
                json.push(c);
                return self.ended();
            }
            ',' => {
                self.end_bare(json);
                *json += ", ";
            }
            ':' => {
                let name = std::mem::take(&mut self.bare);
                if !name.is_empty() {
                    *json += &Value::from(name).to_string();
                }
                *json += ": ";
            }
            c if c.is_whitespace() => {}
            c => self.bare.push(c),
        }
        Progress::More
    }

    fn end_text(&mut self, json: &mut String) -> Progress {
        json.push('"');
        self.place = Place::Outside(Vec::new());
        self.ended()
    }

    fn ended(&self) -> Progress {
        if self.around.is_empty() {
            Progress::Ended
        } else {
            Progress::More
        }
    }

    fn end_bare(&mut self, json: &mut String) {
        let bare = std::mem::take(&mut self.bare);
        if bare.is_empty() {
            return;
        }
        let words = if self.around.is_empty() {
            &self.delimiters.words
        } else {
            &self.delimiters.nested_words
        };
        match word(words, &bare) {
            Some((word, _)) => *json += word,
            None if serde_json::from_str::<Number>(&bare).is_ok() => *json += &bare,
            None => *json += &Value::from(bare).to_string(),
        }
    }
}

/// Appends the character that a backslash and `c` mean.
fn unescape(c: char, json: &mut String) {
    match c {
        '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' | 'u' => json.extend(['\\', c]),
        '\'' => json.push(c),
        c => {
            escape('\\', json);
            escape(c, json);
        }
    }
}
