//! The rules of a grammar for the arguments of a schema, in Lark's syntax.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::alternatives::{Alternative, Alternatives};
use super::form::Syntax;
use super::types::ArgumentTypes;
use crate::guide::schema::{Unchecked, part};
use crate::model::language::Part;

/// The rules for the arguments of one tool, while they are written.
pub(in crate::guide) struct Rules<'a> {
    pub(super) syntax: &'a Syntax,
    pub(super) types: &'a ArgumentTypes,
    pub(super) root: &'a Value,
    /// The position of the tool.
    at: usize,
    lark: String,
    count: usize,
    /// The rules of values within arrays and objects, by their schemas.
    nested: HashMap<String, Option<String>>,
    /// A JSON pointer to the current argument, or to the whole.
    pub(super) pointer: String,
    unchecked: Vec<Unchecked>,
    listed: HashSet<String>,
}

/// Rules in Lark's syntax, and the keywords that they do not enforce.
pub(in crate::guide) struct Written {
    pub(in crate::guide) lark: String,
    pub(in crate::guide) unchecked: Vec<Unchecked>,
}

/// The expression of all arguments.
pub(super) struct Arguments {
    pub(super) lark: String,
    /// The name of a required argument that it lacks, because no value of it can be written.
    pub(super) missing: Option<String>,
}

impl<'a> Rules<'a> {
    pub(in crate::guide) fn new(
        syntax: &'a Syntax,
        types: &'a ArgumentTypes,
        root: &'a Value,
        at: usize,
    ) -> Self {
        Self {
            syntax,
            types,
            root,
            at,
            lark: String::new(),
            count: 0,
            nested: HashMap::new(),
            pointer: String::new(),
            unchecked: Vec::new(),
            listed: HashSet::new(),
        }
    }

    /// Writes the rules. The name of the first one is `arguments` and the position of the tool.
    pub(in crate::guide) fn write(mut self) -> Written {
        let Alternatives { each, lost } = Alternatives::of(self.root, self.root);
        self.give_up(lost);
        let objects = each.into_iter().filter_map(|one| match one {
            Alternative::Object(schema) => Some(self.arguments(&schema)),
            _ => None,
        });
        let objects: Vec<_> = objects.collect();
        let body = self.one_of(objects);
        let first = format!("arguments{}: {body}\n", self.at);
        Written {
            lark: first + &self.lark,
            unchecked: self.unchecked,
        }
    }

    /// Returns the expression of one of these alternatives. One that lacks an argument is used if all lack one.
    fn one_of(&mut self, objects: Vec<Arguments>) -> String {
        let (complete, others): (Vec<_>, Vec<_>) =
            objects.into_iter().partition(|one| one.missing.is_none());
        let chosen = if complete.is_empty() {
            others
        } else {
            complete
        };
        if let Some(name) = chosen.first().and_then(|one| one.missing.as_deref()) {
            self.give_up_required(name);
        }
        if chosen.is_empty() {
            let why = "no arguments of this schema can be written in this model's format of calls";
            self.list("", why.into());
            return "\"\"".into();
        }
        let each: Vec<_> = chosen.into_iter().map(|one| one.lark).collect();
        each.join(" | ")
    }

    /// Returns the expression of an argument's value and the text after it; `None` if there is none.
    pub(super) fn argument(&mut self, name: &str, schema: &Value) -> Option<String> {
        let types = self.types.get(name);
        self.pointer = format!("/properties{}", part(name));
        self.value(schema, types)
    }

    /// Returns the expression of the value of an undeclared argument.
    pub(super) fn other_argument(&mut self, schema: &Value) -> Option<String> {
        self.pointer = "/additionalProperties".into();
        self.value(schema, self.types.others())
    }

    /// Returns the rule of a value within an array or an object; `None` if there is none.
    pub(super) fn nested(&mut self, schema: &Value) -> Option<String> {
        let key = schema.to_string();
        if let Some(known) = self.nested.get(&key) {
            return known.clone();
        }
        let rule = self.fresh();
        // The schema may refer to itself.
        self.nested.insert(key.clone(), Some(rule.clone()));
        let Alternatives { each, lost } = Alternatives::of(self.root, schema);
        self.give_up(lost);
        let each = each
            .into_iter()
            .filter_map(|one| self.nested_alternative(one));
        let each: Vec<_> = each.collect();
        if each.is_empty() {
            self.nested.insert(key, None);
            return None;
        }
        self.define(&rule, &each.join(" | "));
        Some(rule)
    }

    /// Defines a terminal, and returns its name.
    pub(super) fn terminal(&mut self, lark: &str) -> String {
        let name = self.fresh().to_uppercase();
        self.define(&name, lark);
        name
    }

    /// Defines a rule, and returns its name.
    pub(super) fn rule(&mut self, lark: &str) -> String {
        let name = self.fresh();
        self.define(&name, lark);
        name
    }

    pub(super) fn fresh(&mut self) -> String {
        self.count += 1;
        format!("a{}x{}", self.at, self.count)
    }

    pub(super) fn define(&mut self, name: &str, body: &str) {
        let _ = writeln!(self.lark, "{name}: {body}");
    }

    /// Lists keywords that are not enforced.
    pub(super) fn give_up<T: AsRef<str>>(&mut self, keywords: impl IntoIterator<Item = T>) {
        for keyword in keywords {
            let keyword = keyword.as_ref();
            let why =
                format!("{keyword:?} cannot be enforced here in this model's format of calls");
            self.list(&part(keyword), why);
        }
    }

    /// Lists a property whose name cannot be written.
    pub(super) fn give_up_name(&mut self, name: &str) {
        let why = format!("the name {name:?} cannot be written in this model's format of calls");
        self.list(&format!("/properties{}", part(name)), why);
    }

    /// Lists a required argument, if none of its values can be written.
    fn give_up_required(&mut self, name: &str) {
        let why = format!(
            "the argument {name:?} is \"required\", and none of its values can be written in this model's format of calls"
        );
        self.list(&part("required"), why);
    }

    /// Lists what is not enforced at a pointer within the current argument.
    fn list(&mut self, pointer: &str, why: String) {
        let pointer = format!("{}{pointer}", self.pointer);
        if self.listed.insert(pointer.clone()) {
            self.unchecked.push(Unchecked { pointer, why });
        }
    }
}

/// Writes parts in Lark's syntax, whose escapes are those of JSON.
#[must_use]
pub fn literal(parts: &[Part]) -> String {
    let each = parts.iter().map(|part| match part {
        Part::Special(id) => format!("<[{id}]>"),
        Part::Text(text) => json!(text).to_string(),
    });
    let each: Vec<_> = each.collect();
    if each.is_empty() {
        "\"\"".into()
    } else {
        each.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guide::syntax::{Nested, Text};

    /// Returns the pointers to what the rules for a schema do not enforce.
    fn unchecked(text: Text, schema: &Value) -> Vec<String> {
        let part = |text: &str| vec![Part::Text(text.into())];
        let words = ["true", "false", "null"].map(str::to_owned);
        let syntax = Syntax {
            open: part("<"),
            middle: part("="),
            close: part(">"),
            separator: Vec::new(),
            sorted: false,
            text,
            words: words.clone(),
            nested: Nested {
                words,
                separator: ", ".into(),
                colon: ": ".into(),
                bare: false,
            },
        };
        let types = ArgumentTypes::of(schema);
        let written = Rules::new(&syntax, &types, schema, 0).write();
        let unchecked = written.unchecked.into_iter();
        unchecked.map(|one| one.pointer).collect()
    }

    #[test]
    fn keywords_and_names_without_rules_are_listed_with_their_places() {
        let raw = || Text::Raw {
            never: vec![">".into()],
        };
        for (text, schema, expected) in [
            (
                raw(),
                json!({"type": "object", "properties": {"a": {"type": ["string", "number"], "minimum": 0}}}),
                "/properties/a/minimum",
            ),
            (
                raw(),
                json!({"type": "object", "properties": {"a": {"type": "number", "minimum": 0}}, "minProperties": 1}),
                "/minProperties",
            ),
            (
                Text::Json,
                json!({"type": "object", "properties": {"a=b": {"type": "string"}}}),
                "/properties/a=b",
            ),
            (
                raw(),
                json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "(^a)"}}}),
                "/properties/a/pattern",
            ),
            (
                raw(),
                json!({"type": "object", "properties": {"a": {"type": "string", "maxLength": 257}}}),
                "/properties/a/maxLength",
            ),
            (
                raw(),
                json!({"type": "object", "properties": {"a": {"enum": ["x>"]}}, "required": ["a"]}),
                "/required",
            ),
            (
                raw(),
                json!({"type": "object", "properties": {"a": {"enum": ["1", "true", 1, true]}, "b": false}, "required": ["b"]}),
                "/required",
            ),
            (
                Text::Json,
                json!({"type": "object", "enum": [{"a": 1}]}),
                "",
            ),
            (Text::Json, json!(false), ""),
        ] {
            assert_eq!(unchecked(text, &schema), [expected], "{schema}");
        }
        // Another branch has a value for each required argument.
        let schema = json!({"type": "object", "anyOf": [
            {"properties": {"a": {"enum": ["x>"]}}, "required": ["a"]}, {"properties": {"b": {"type": "string"}}},
        ]});
        assert!(unchecked(raw(), &schema).is_empty());
    }
}
