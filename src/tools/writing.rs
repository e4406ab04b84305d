//! A format in one model's vocabulary: the grammar of answers that may call, and what reads their calls.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::json;

use super::format::ID_CHARS;
use super::offer::Tool;
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

    /// Returns the JSON Schemas of the arguments that may be written, and the positions of their tools.
    #[must_use]
    pub fn arguments(&self, tools: &Tools) -> Vec<(usize, String)> {
        let named =
            |tool: &&Tool| !matches!(&tools.choice, Choice::Named(one) if *one != tool.name);
        let offered = tools.each.iter().enumerate();
        let offered = offered.filter(|(_, tool)| tools.choice != Choice::None && named(tool));
        offered
            .map(|(at, tool)| (at, tool.arguments.clone()))
            .collect()
    }

    /// Writes in Lark's syntax: text, then calls, as far as `tools` want or allow either. The rules of their arguments are not in
    /// it: they are `arguments` and the position of the tool.
    #[must_use]
    pub fn grammar(&self, tools: &Tools) -> String {
        let Format {
            trigger,
            begin,
            open,
            id,
            middle,
            close,
            separator,
            ..
        } = &*self.format;
        let first = format!("{begin}{open}");
        let mut lark = match (&tools.choice, trigger) {
            (Choice::None, _) => return format!("start: TEXT\nTEXT: {TEXT}\n"),
            (Choice::Required | Choice::Named(_), _) => {
                format!("start: {}\n", self.calls(&first, tools))
            }
            (Choice::Auto, Some(_)) if self.spelled_trigger().is_none() => {
                let calls = self.calls(&first, tools);
                format!("start: TEXT | TEXT {calls}\nTEXT: {TEXT}\n")
            }
            (Choice::Auto, Some(trigger)) => {
                // The text ends where its trigger does, and the first call has begun by then.
                let rest = first.strip_prefix(trigger).unwrap_or_default();
                let (calls, trigger) = (self.calls(rest, tools), json!(trigger));
                format!("start: TEXT | head {calls}\nTEXT: {TEXT}\nhead[lazy]: TEXT {trigger}\n")
            }
            (Choice::Auto, None) => {
                let (calls, first) = (self.calls(&first, tools), escaped(&first));
                // What begins as a call does is one.
                format!("start: TEXT | {calls}\nTEXT: /(\\s*[^\\s{first}](.|\\n)*)?/\n")
            }
        };
        if self.further(tools).is_some() {
            let next = self.literal(&format!("{separator}{open}"));
            let _ = writeln!(lark, "more: {next} one");
        }
        if id.is_some() {
            let _ = writeln!(lark, "ID: /[0-9A-Za-z]{{{ID_CHARS}}}/");
        }
        let named = |name: &str| !matches!(&tools.choice, Choice::Named(one) if one != name);
        let mut rules = Vec::new();
        for (at, tool) in tools.each.iter().enumerate() {
            if named(&tool.name) {
                rules.push(format!("tool{at}"));
                let name = &tool.name;
                let name = match id {
                    Some(id) => {
                        let name = self.literal(&format!("{name}{id}"));
                        format!("{name} ID {}", self.literal(middle))
                    }
                    None => self.literal(&format!("{name}{middle}")),
                };
                let close = self.literal(close);
                let _ = writeln!(lark, "tool{at}: {name} arguments{at} {close}");
            }
        }
        lark + &format!("one: {}\n", rules.join(" | "))
    }

    /// What calls begin with, where that is text and no token.
    #[must_use]
    pub fn spelled_trigger(&self) -> Option<&str> {
        let trigger = self.format.trigger.as_deref();
        trigger.filter(|trigger| !self.begins_special(trigger))
    }

    /// What reads the calls of an answer; their ids follow from `salt`.
    #[must_use]
    pub fn listener(&self, salt: u64) -> Listener {
        let symbols = |text: &str| self.words.parts(text);
        let Format {
            trigger,
            begin,
            open,
            id,
            middle,
            close,
            separator,
            end,
            ..
        } = &*self.format;
        let trigger = trigger.as_deref().map(|trigger| {
            let mut parts = symbols(trigger);
            if self.begins_special(trigger) {
                // That is enough to tell a call by.
                parts.truncate(1);
            }
            parts
        });
        Listener::new(
            trigger,
            [
                symbols(&format!("{begin}{open}")),
                symbols(id.as_deref().unwrap_or_default()),
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

    /// The calls after the first, in Lark's syntax; `None` if an answer may call once.
    fn further(&self, tools: &Tools) -> Option<String> {
        match tools.calls() {
            _ if !self.format.parallel => None,
            None => Some("more*".into()),
            Some(calls) => (calls > 1).then(|| format!("more{{0,{}}}", calls - 1)),
        }
    }

    /// All calls, the first of which begins like this.
    fn calls(&self, first: &str, tools: &Tools) -> String {
        let more = self.further(tools).unwrap_or_default();
        let (first, end) = (self.literal(first), self.literal(&self.format.end));
        format!("{first} one {more} {end}")
    }

    /// Whether a token that no text becomes is at the beginning of it.
    fn begins_special(&self, text: &str) -> bool {
        matches!(self.words.parts(text).first(), Some(Part::Special(_)))
    }

    /// A piece in Lark's syntax; JSON's escapes are Lark's.
    fn literal(&self, text: &str) -> String {
        let parts = self.words.parts(text).into_iter().map(|part| match part {
            Part::Special(id) => format!("<[{id}]>"),
            Part::Text(text) => json!(text).to_string(),
        });
        parts.collect::<Vec<_>>().join(" ")
    }
}

/// The first character of a text, for a class of a regular expression.
fn escaped(text: &str) -> String {
    let first = text.chars().next().map(u32::from);
    first.map_or_else(String::new, |first| format!("\\u{{{first:x}}}"))
}
