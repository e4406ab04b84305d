//! A format in one model's vocabulary: the grammar of answers that may call, and what reads their calls.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Choice, Format, Listener, Tools};
use crate::model::language::{Part, Words};

/// How calls are written in the tokens of one model.
#[derive(Clone, Debug)]
pub struct Writing {
    format: Arc<Format>,
    words: Words,
}

/// Any text.
const TEXT: &str = r"/(.|\n)*/";

impl Writing {
    #[must_use]
    pub fn new(format: Arc<Format>, words: Words) -> Self {
        Self { format, words }
    }

    /// In Lark's syntax: text, then calls, as far as `tools` want or allow either. `spaced` has a schema say how JSON is
    /// written.
    #[must_use]
    pub fn grammar(&self, tools: &Tools, spaced: impl Fn(Value) -> Value) -> String {
        let mut lark = String::new();
        let start = match (&tools.choice, &self.format.trigger) {
            (Choice::None, _) => "TEXT",
            (Choice::Required | Choice::Named(_), _) => "calls",
            (Choice::Auto, Some(trigger)) => match self.words.parts(trigger).as_slice() {
                [Part::Special(_)] => "TEXT | TEXT calls",
                _ => "TEXT | head rest",
            },
            // What begins as a call does is one.
            (Choice::Auto, None) => "ANSWER | calls",
        };
        let _ = writeln!(lark, "start: {start}");
        let Format {
            begin,
            open,
            middle,
            close,
            separator,
            end,
            ..
        } = &*self.format;
        match start {
            "TEXT" => {
                let _ = writeln!(lark, "TEXT: {TEXT}");
                return lark;
            }
            "TEXT | TEXT calls" => {
                let _ = writeln!(lark, "TEXT: {TEXT}");
            }
            "ANSWER | calls" => {
                let first = self.first_of_calls();
                let _ = writeln!(lark, r"ANSWER: /(\s*[^\s{first}](.|\n)*)?/");
            }
            "TEXT | head rest" => {
                let trigger = self.format.trigger.as_deref().unwrap_or_default();
                let _ = writeln!(lark, "TEXT: {TEXT}\nhead[lazy]: TEXT {}", json!(trigger));
                let whole = format!("{begin}{open}");
                let after = whole.strip_prefix(trigger).unwrap_or_default();
                // The head of the first call is there already.
                let first = self.literal(after);
                let _ = writeln!(lark, "rest: {first} one {}", self.tail(tools));
            }
            _ => {}
        }
        if start.ends_with("calls") {
            let first = self.literal(&format!("{begin}{open}"));
            let _ = writeln!(lark, "calls: {first} one {}", self.tail(tools));
        }
        if self.several(tools) {
            let between = self.literal(&format!("{separator}{open}"));
            let _ = writeln!(lark, "more: {between} one");
        }
        let mut names = Vec::new();
        for (at, tool) in tools.each.iter().enumerate() {
            if let Choice::Named(name) = &tools.choice
                && *name != tool.name
            {
                continue;
            }
            names.push(format!("tool{at}"));
            let name = self.literal(&format!("{}{middle}", tool.name));
            let close = self.literal(close);
            // It was JSON when it was written.
            let arguments = spaced(serde_json::from_str(&tool.arguments).unwrap_or_default());
            let _ = writeln!(
                lark,
                "tool{at}: {name} arguments{at} {close}\narguments{at}: %json {arguments}"
            );
        }
        let _ = writeln!(lark, "one: {}", names.join(" | "));
        let _ = end;
        lark
    }

    /// What reads the calls of an answer; their ids follow from `salt`.
    #[must_use]
    pub fn listener(&self, salt: u64) -> Listener {
        let symbols = |text: &str| self.words.parts(text);
        let Format {
            trigger,
            begin,
            open,
            middle,
            close,
            separator,
            end,
            ..
        } = &*self.format;
        Listener::new(
            trigger.as_deref().map(symbols),
            [
                symbols(&format!("{begin}{open}")),
                symbols(middle),
                symbols(close),
                symbols(&format!("{separator}{open}")),
                symbols(end),
            ],
            salt,
        )
    }

    /// Calls as this model would write them.
    #[must_use]
    pub fn format(&self) -> &Format {
        &self.format
    }

    /// Whether an answer may call several times.
    fn several(&self, tools: &Tools) -> bool {
        self.format.parallel && tools.parallel
    }

    /// What follows the first call.
    fn tail(&self, tools: &Tools) -> String {
        let more = if self.several(tools) { "more* " } else { "" };
        format!("{more}{}", self.literal(&self.format.end))
    }

    /// A piece in Lark's syntax; JSON's escapes are Lark's.
    fn literal(&self, text: &str) -> String {
        let parts = self.words.parts(text).into_iter().map(|part| match part {
            Part::Special(id) => format!("<[{id}]>"),
            Part::Text(text) => json!(text).to_string(),
        });
        parts.collect::<Vec<_>>().join(" ")
    }

    /// The character that calls begin with, escaped for a class of a regular expression.
    fn first_of_calls(&self) -> String {
        let Format { begin, open, .. } = &*self.format;
        let first = begin.chars().chain(open.chars()).next();
        first
            .map(|c| format!("\\u{{{:x}}}", u32::from(c)))
            .unwrap_or_default()
    }
}
