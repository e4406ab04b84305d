//! A format in one model's vocabulary: the grammar of answers with calls, and the reader of their calls.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::json;

use super::arguments::{OwnSyntax, ToolTypes};
use super::delimiters::Delimiters;
use super::format::{Format, ID_CHARS};
use super::listener::Listener;
use super::offer::{Choice, Tool, Tools};
use super::symbols::symbols;
use crate::guide::syntax::{self, ArgumentTypes, Syntax};
use crate::model::language::{Part, Words};

/// The syntax of calls in the tokens of one model.
#[derive(Clone, Debug)]
pub struct Writing {
    format: Arc<Format>,
    words: Words,
    /// The types of the arguments of each tool, which decide how arguments without quotes are read.
    types: Arc<ToolTypes>,
}

/// A rule for any text.
const TEXT: &str = r"/(.|\n)*/";

impl Writing {
    #[must_use]
    pub fn new(format: Arc<Format>, words: Words) -> Self {
        Self {
            format,
            words,
            types: Arc::default(),
        }
    }

    /// Sets the tools whose calls are read.
    #[must_use]
    pub fn of(mut self, tools: &Tools) -> Self {
        if self.format.syntax.is_some() {
            let types = tools.schemas().map(|(name, schema)| {
                // The text was valid JSON when it was made.
                let schema = serde_json::from_str(schema).unwrap_or_default();
                (name.to_owned(), ArgumentTypes::of(&schema))
            });
            self.types = Arc::new(types.collect());
        }
        self
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

    /// Writes a grammar in Lark's syntax: text followed by calls, as far as `tools` allow. The rules of the arguments
    /// are not in it; their names are `arguments` and the tool's position.
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
                // The text ends with its trigger, which begins the first call.
                let rest = first.strip_prefix(trigger).unwrap_or_default();
                let (calls, trigger) = (self.calls(rest, tools), json!(trigger));
                format!("start: TEXT | head {calls}\nTEXT: {TEXT}\nhead[lazy]: TEXT {trigger}\n")
            }
            (Choice::Auto, None) => {
                let (calls, first) = (self.calls(&first, tools), escaped(&first));
                // An answer that begins as a call does is a call.
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

    /// Returns the trigger if it is text and not a token.
    #[must_use]
    pub fn spelled_trigger(&self) -> Option<&str> {
        let trigger = self.format.trigger.as_deref();
        trigger.filter(|trigger| !self.begins_special(trigger))
    }

    /// Returns the syntax of arguments that are not a JSON object, in the tokens of the model.
    #[must_use]
    pub fn syntax(&self) -> Option<Syntax> {
        let syntax = self.format.syntax.as_ref()?;
        Some(syntax.in_words(|text| self.words.parts(text)))
    }

    /// Returns a reader of the calls of an answer, whose generated ids depend on `salt`.
    #[must_use]
    pub fn listener(&self, salt: u64) -> Listener {
        let split = |text: &str| symbols(self.words.parts(text));
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
            let mut trigger_symbols = split(trigger);
            if self.begins_special(trigger) {
                // The first one identifies a call.
                trigger_symbols.truncate(1);
            }
            trigger_symbols
        });
        let close = split(close);
        let own = self.syntax().map(|syntax| OwnSyntax {
            delimiters: Arc::new(Delimiters::new(syntax, &close)),
            types: self.types.clone(),
        });
        let fixed = [
            split(&format!("{begin}{open}")),
            split(id.as_deref().unwrap_or_default()),
            split(middle),
            close,
            split(&format!("{separator}{open}")),
            split(end),
        ];
        Listener::new(trigger, fixed, own, salt)
    }

    /// Returns the format of the calls.
    #[must_use]
    pub fn format(&self) -> &Format {
        &self.format
    }

    /// Returns the rule for calls after the first; `None` if an answer may call once.
    fn further(&self, tools: &Tools) -> Option<String> {
        match tools.calls() {
            _ if !self.format.parallel => None,
            None => Some("more*".into()),
            Some(calls) => (calls > 1).then(|| format!("more{{0,{}}}", calls - 1)),
        }
    }

    /// Returns the rule for all calls; the first begins with `first`.
    fn calls(&self, first: &str, tools: &Tools) -> String {
        let more = self.further(tools).unwrap_or_default();
        let (first, end) = (self.literal(first), self.literal(&self.format.end));
        format!("{first} one {more} {end}")
    }

    /// Whether the text begins with a special token.
    fn begins_special(&self, text: &str) -> bool {
        matches!(self.words.parts(text).first(), Some(Part::Special(_)))
    }

    /// Writes a piece in Lark's syntax.
    fn literal(&self, text: &str) -> String {
        syntax::literal(&self.words.parts(text))
    }
}

/// Escapes the first character of a text for a class of a regular expression.
fn escaped(text: &str) -> String {
    let first = text.chars().next().map(u32::from);
    first.map_or_else(String::new, |first| format!("\\u{{{first:x}}}"))
}
