//! The expressions of values.

use serde_json::{Map, Value, json};

use super::alternatives::{Alternative, Alternatives};
use super::form::{Text, spelled};
use super::json::{bounded, number};
use super::rules::{Rules, literal};
use super::texts::{self, Terminal};
use super::types::Types;
use crate::model::language::Part;

/// Keywords that bound a number.
const BOUNDS: [&str; 5] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
];

impl Rules<'_> {
    /// Returns the expression of an argument's value, which is of one of `types`, and the text after it; `None` if there
    /// is no value.
    pub(super) fn value(&mut self, schema: &Value, types: Types) -> Option<String> {
        let Alternatives { each, lost } = Alternatives::of(self.root, schema);
        self.give_up(lost);
        let close = literal(&self.syntax.close);
        let Text::Raw { never } = &self.syntax.text else {
            let each = each.into_iter().filter_map(|one| self.quoted(one));
            return either(each).map(|value| format!("{value} {close}"));
        };
        let is_text = types.has(Types::TEXT);
        let each = each.into_iter().filter(|one| types.has(one.types()));
        // If the value may be a text, one terminal contains the texts and the other scalars, which have no quotes either.
        let (texts, others): (Vec<_>, Vec<_>) = each.partition(|one| {
            is_text && (one.types().has(Types::TEXT) || !one.types().has(Types::CONTAINER))
        });
        let terminals = texts
            .into_iter()
            .flat_map(|one| self.raw(one, never, types));
        let terminals: Vec<_> = terminals.collect();
        let mut all = Vec::new();
        if !terminals.is_empty() {
            all.push(self.closed(&terminals.join(" | "), &self.syntax.close));
        }
        for one in others {
            let value = self.quoted(one);
            all.extend(value.map(|value| format!("{value} {close}")));
        }
        either(all)
    }

    /// Returns terminals of an argument's value without quotes.
    fn raw(&mut self, one: Alternative, never: &[String], types: Types) -> Vec<String> {
        let [yes, no, null] = terminals_of(&self.syntax.words);
        match one {
            Alternative::Text(schema) => {
                let others = types.without(Types::TEXT);
                let Terminal { lark, lost } = texts::raw(&schema, never, others);
                self.give_up(lost);
                vec![lark]
            }
            Alternative::Literals(values) => {
                let others = types.without(Types::TEXT);
                let read_as_other = |value: &&Value| {
                    let text = value.as_str();
                    text.is_some_and(|text| texts::is_like(text, others, &self.syntax.words))
                };
                let values = values.iter().filter(|value| !read_as_other(value));
                let spelled = values.map(|value| spelled(&self.syntax.value(value)));
                let may = |text: &String| !never.iter().any(|never| text.contains(never.as_str()));
                let each = spelled.filter(may).map(|text| json!(text).to_string());
                each.collect()
            }
            Alternative::Number { schema, integer } => {
                let bounds = BOUNDS.into_iter();
                self.give_up(bounds.filter(|keyword| schema.contains_key(*keyword)));
                vec![number(integer).to_owned()]
            }
            Alternative::Boolean => vec![yes, no],
            Alternative::Null => vec![null],
            Alternative::Array(_) | Alternative::Object(_) => Vec::new(),
        }
    }

    /// Returns the expression of an argument's value that ends by itself.
    fn quoted(&mut self, one: Alternative) -> Option<String> {
        let [yes, no, null] = terminals_of(&self.syntax.words);
        match one {
            Alternative::Boolean => either([yes, no]),
            Alternative::Null => Some(null),
            Alternative::Literals(values) => {
                let values = values.iter().filter(|value| self.syntax.can_write(value));
                either(values.map(|one| literal(&self.syntax.value(one))))
            }
            Alternative::Text(schema) if self.syntax.text == Text::Python => {
                let Terminal { lark, lost } = texts::python(&schema);
                self.give_up(lost);
                Some(self.terminal(&lark))
            }
            other => self.nested_alternative(other),
        }
    }

    /// Returns the expression of a value within an array or an object.
    pub(super) fn nested_alternative(&mut self, one: Alternative) -> Option<String> {
        let [yes, no, null] = terminals_of(&self.syntax.nested.words);
        match one {
            Alternative::Literals(values) => {
                let values = values.iter().filter(|value| self.syntax.can_write(value));
                either(values.map(|one| literal(&self.syntax.nested_value(one))))
            }
            Alternative::Boolean => either([yes, no]),
            Alternative::Null => Some(null),
            Alternative::Number { schema, integer } => Some(bounded(&schema, integer)),
            Alternative::Text(schema) => Some(self.text(schema)),
            Alternative::Array(schema) if self.needs_json(&schema) => {
                Some(self.json(schema, "array"))
            }
            Alternative::Object(schema) if self.needs_json(&schema) => {
                Some(self.json(schema, "object"))
            }
            Alternative::Array(schema) => self.array(&schema),
            Alternative::Object(schema) => self.object(&schema),
        }
    }

    /// Returns the expression of a text with quotes or marks.
    fn text(&mut self, schema: Map<String, Value>) -> String {
        let Text::Marked {
            begin,
            end,
            spelled,
        } = &self.syntax.text
        else {
            return self.json(schema, "string");
        };
        let never = std::slice::from_ref(spelled);
        let Terminal { lark, lost } = texts::raw(&schema, never, Types::default());
        self.give_up(lost);
        format!("{} {}", literal(begin), self.closed(&lark, end))
    }

    /// Returns the expression of a text without quotes and the fixed text after it.
    fn closed(&mut self, terminal: &str, close: &[Part]) -> String {
        let (inner, rest) = match close.split_first() {
            Some((Part::Text(text), rest)) => (format!("({terminal}) {}", json!(text)), rest),
            _ => (format!("({terminal})"), close),
        };
        if rest.is_empty() {
            // The first text that ends like this is the whole.
            let rule = self.fresh();
            self.define(&format!("{rule}[lazy]"), &inner);
            return rule;
        }
        format!("{} {}", self.terminal(&inner), literal(rest))
    }
}

/// Returns the expression of one of these expressions; `None` if there is none.
fn either(each: impl IntoIterator<Item = String>) -> Option<String> {
    let each: Vec<_> = each.into_iter().collect();
    (!each.is_empty()).then(|| format!("({})", each.join(" | ")))
}

/// Returns the terminals of words.
fn terminals_of(words: &[String; 3]) -> [String; 3] {
    words.each_ref().map(|word| json!(word).to_string())
}
