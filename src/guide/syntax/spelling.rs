//! Writes known values in a syntax.

use serde_json::Value;

use super::form::{Nested, Syntax, Text, spelled};
use crate::model::language::Part;

impl Syntax {
    /// Writes the arguments of a call, a JSON object.
    #[must_use]
    pub fn write(&self, arguments: &Value) -> Vec<Part> {
        let mut out = Out::default();
        for (at, (name, value)) in self.ordered(arguments).into_iter().enumerate() {
            if at > 0 {
                out.parts(&self.separator);
            }
            out.parts(&self.open);
            out.text(name);
            out.parts(&self.middle);
            self.write_value(value, &mut out);
            out.parts(&self.close);
        }
        out.0
    }

    /// Writes the name of an argument with the texts around it.
    pub(super) fn opening(&self, name: &str) -> Vec<Part> {
        let mut out = Out::default();
        out.parts(&self.open);
        out.text(name);
        out.parts(&self.middle);
        out.0
    }

    /// Writes the value of an argument.
    pub(super) fn value(&self, value: &Value) -> Vec<Part> {
        let mut out = Out::default();
        self.write_value(value, &mut out);
        out.0
    }

    /// Writes a value within an array or an object.
    pub(super) fn nested_value(&self, value: &Value) -> Vec<Part> {
        let mut out = Out::default();
        self.write_nested(value, &mut out);
        out.0
    }

    /// Writes the name of a member of an object.
    pub(super) fn name(&self, name: &str) -> Vec<Part> {
        let mut out = Out::default();
        self.write_name(name, &mut out);
        out.0
    }

    /// Whether a value can be read as it was written: no text in it contains the mark of a text's end.
    pub(super) fn can_write(&self, value: &Value) -> bool {
        let Text::Marked { spelled, .. } = &self.text else {
            return true;
        };
        let is_free = |text: &String| !text.contains(spelled.as_str());
        match value {
            Value::String(text) => is_free(text),
            Value::Array(items) => items.iter().all(|item| self.can_write(item)),
            Value::Object(members) => {
                let mut members = members.iter();
                members.all(|(name, value)| is_free(name) && self.can_write(value))
            }
            _ => true,
        }
    }

    /// Whether the end of an argument's name is the first occurrence of the text between name and value.
    pub(super) fn can_name(&self, name: &str) -> bool {
        let middle = spelled(&self.middle);
        let end = format!("{name}{middle}").find(&middle);
        middle.is_empty() || end == Some(name.len())
    }

    fn write_value(&self, value: &Value, out: &mut Out) {
        match (value, &self.text) {
            (Value::String(text), Text::Raw { .. }) => out.text(text),
            (Value::String(text), Text::Python) => out.text(&quoted(text)),
            (Value::Bool(_) | Value::Null, _) => out.text(word(&self.words, value)),
            _ => self.write_nested(value, out),
        }
    }

    fn write_nested(&self, value: &Value, out: &mut Out) {
        let Nested {
            words,
            separator,
            colon,
            ..
        } = &self.nested;
        match value {
            Value::Bool(_) | Value::Null => out.text(word(words, value)),
            Value::Number(number) => out.text(&number.to_string()),
            Value::String(text) => self.write_text(text, out),
            Value::Array(items) => {
                out.text("[");
                for (at, item) in items.iter().enumerate() {
                    out.text(if at > 0 { separator } else { "" });
                    self.write_nested(item, out);
                }
                out.text("]");
            }
            Value::Object(_) => {
                out.text("{");
                for (at, (name, value)) in self.ordered(value).into_iter().enumerate() {
                    out.text(if at > 0 { separator } else { "" });
                    self.write_name(name, out);
                    out.text(colon);
                    self.write_nested(value, out);
                }
                out.text("}");
            }
        }
    }

    fn write_name(&self, name: &str, out: &mut Out) {
        if self.nested.bare && is_plain(name) {
            out.text(name);
        } else {
            self.write_text(name, out);
        }
    }

    /// Writes a text within an array or an object.
    fn write_text(&self, text: &str, out: &mut Out) {
        match &self.text {
            Text::Marked { begin, end, .. } => {
                out.parts(begin);
                out.text(text);
                out.parts(end);
            }
            _ => out.text(&Value::from(text).to_string()),
        }
    }

    fn ordered<'a>(&self, object: &'a Value) -> Vec<(&'a String, &'a Value)> {
        let members = object.as_object().into_iter().flatten();
        let mut members: Vec<_> = members.collect();
        if self.sorted {
            members.sort_by_key(|(name, _)| name.to_lowercase());
        }
        members
    }
}

/// Whether a name needs no quotes.
pub(super) fn is_plain(name: &str) -> bool {
    let may = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    !name.is_empty() && name.chars().all(may)
}

fn word<'a>(words: &'a [String; 3], value: &Value) -> &'a str {
    let [yes, no, null] = words;
    match value {
        Value::Bool(true) => yes,
        Value::Bool(false) => no,
        _ => null,
    }
}

/// Writes a text as Python does, between single quotes.
fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('\'', "\\'");
    format!("'{}'", escaped.replace('\n', "\\n").replace('\r', "\\r"))
}

/// Parts in which adjacent texts are joined.
#[derive(Default)]
struct Out(Vec<Part>);

impl Out {
    fn text(&mut self, text: &str) {
        match self.0.last_mut() {
            _ if text.is_empty() => {}
            Some(Part::Text(last)) => last.push_str(text),
            _ => self.0.push(Part::Text(text.to_owned())),
        }
    }

    fn parts(&mut self, parts: &[Part]) {
        for part in parts {
            match part {
                Part::Text(text) => self.text(text),
                Part::Special(id) => self.0.push(Part::Special(*id)),
            }
        }
    }
}
