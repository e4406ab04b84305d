//! The types of values that a schema accepts. Where texts have no quotes, they decide how a value is read.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::guide::schema::target;

/// A set of types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Types(u8);

/// The types of a tool's arguments by name.
#[derive(Clone, Debug, Default)]
pub struct ArgumentTypes {
    named: HashMap<String, Types>,
    others: Types,
}

/// The depth to which references and alternatives are followed, and the most schemas that are visited.
const DEEPEST: usize = 16;
const VISITED: usize = 10_000;

impl Types {
    pub const TEXT: Self = Self(1);
    pub const NUMBER: Self = Self(2);
    pub const BOOLEAN: Self = Self(4);
    pub const NULL: Self = Self(8);
    /// Arrays and objects.
    pub const CONTAINER: Self = Self(16);

    /// Whether it has one of the types of another set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the types of both sets.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns its types except those of another set.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns the type of a value.
    #[must_use]
    pub const fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Number(_) => Self::NUMBER,
            Value::String(_) => Self::TEXT,
            Value::Array(_) | Value::Object(_) => Self::CONTAINER,
        }
    }

    /// Returns the type that a schema names.
    pub(super) fn named(name: &str) -> Self {
        match name {
            "string" => Self::TEXT,
            "number" | "integer" => Self::NUMBER,
            "boolean" => Self::BOOLEAN,
            "null" => Self::NULL,
            "array" | "object" => Self::CONTAINER,
            _ => Self::default(),
        }
    }
}

impl ArgumentTypes {
    /// Returns the types of the arguments that a schema describes. An argument of any type is a text, as for parsers of
    /// formats without quotes.
    #[must_use]
    pub fn of(schema: &Value) -> Self {
        let mut walk = Walk {
            root: schema,
            left: VISITED,
        };
        let mut types = Self::default();
        walk.add(schema, 0, &mut types);
        if types.others == Types::default() {
            types.others = Types::TEXT;
        }
        types
    }

    /// Returns the types of an argument.
    #[must_use]
    pub fn get(&self, name: &str) -> Types {
        self.named.get(name).copied().unwrap_or(self.others)
    }

    /// Returns the types of undeclared arguments.
    #[must_use]
    pub fn others(&self) -> Types {
        self.others
    }
}

/// A visit of the schemas within one schema. The number of visits is limited, because each reference may lead to many.
struct Walk<'a> {
    root: &'a Value,
    left: usize,
}

impl<'a> Walk<'a> {
    /// Returns the members of a schema that may be visited.
    fn visit(&mut self, schema: &'a Value, depth: usize) -> Option<&'a Map<String, Value>> {
        let members = schema.as_object().filter(|_| depth < DEEPEST)?;
        self.left = self.left.checked_sub(1)?;
        Some(members)
    }

    /// Adds the types of the arguments that a schema declares.
    fn add(&mut self, schema: &'a Value, depth: usize, types: &mut ArgumentTypes) {
        let Some(members) = self.visit(schema, depth) else {
            return;
        };
        let declared = members.get("properties").and_then(Value::as_object);
        for (name, schema) in declared.into_iter().flatten() {
            let found = self.types_of(schema, 0).unwrap_or(Types::TEXT);
            let known = types.named.entry(name.clone()).or_default();
            *known = known.with(found);
        }
        let others = members.get("additionalProperties");
        let others = others.and_then(|schema| self.types_of(schema, 0));
        types.others = types.others.with(others.unwrap_or_default());
        for keyword in ["allOf", "anyOf", "oneOf"] {
            for schema in schemas(members, keyword).into_iter().flatten() {
                self.add(schema, depth + 1, types);
            }
        }
        if let Some(schema) = referred(self.root, members) {
            self.add(schema, depth + 1, types);
        }
    }

    /// Returns the types that a schema accepts; `None` if it names none.
    fn types_of(&mut self, schema: &'a Value, depth: usize) -> Option<Types> {
        let members = self.visit(schema, depth)?;
        let mut found = keyword_types(members);
        let mut narrow = |types: Option<Types>| {
            found = match (found, types) {
                (Some(found), Some(types)) => Some(Types(found.0 & types.0)),
                (found, types) => found.or(types),
            };
        };
        let target = referred(self.root, members);
        narrow(target.and_then(|schema| self.types_of(schema, depth + 1)));
        for schema in schemas(members, "allOf").into_iter().flatten() {
            narrow(self.types_of(schema, depth + 1));
        }
        for keyword in ["anyOf", "oneOf"] {
            let each = schemas(members, keyword).into_iter().flatten();
            let known = each.filter_map(|schema| self.types_of(schema, depth + 1));
            narrow(known.reduce(Types::with));
        }
        found
    }
}

fn schemas<'a>(members: &'a Map<String, Value>, keyword: &str) -> Option<&'a Vec<Value>> {
    members.get(keyword).and_then(Value::as_array)
}

/// Returns the target of a schema's reference.
pub(super) fn referred<'a>(root: &'a Value, members: &Map<String, Value>) -> Option<&'a Value> {
    let reference = members.get("$ref")?.as_str()?;
    root.pointer(&target(reference)?)
}

/// Returns the types that a schema's own keywords name.
pub(super) fn keyword_types(members: &Map<String, Value>) -> Option<Types> {
    let all = |types: &mut dyn Iterator<Item = Types>| types.fold(Types::default(), Types::with);
    if let Some(value) = members.get("const") {
        return Some(Types::of(value));
    }
    if let Some(values) = members.get("enum").and_then(Value::as_array) {
        return Some(all(&mut values.iter().map(Types::of)));
    }
    match members.get("type") {
        Some(Value::String(name)) => return Some(Types::named(name)),
        Some(Value::Array(names)) => {
            let names = names.iter().filter_map(Value::as_str);
            return Some(all(&mut names.map(Types::named)));
        }
        _ => {}
    }
    let has = |keywords: &[&str]| {
        keywords
            .iter()
            .any(|keyword| members.contains_key(*keyword))
    };
    if has(&[
        "properties",
        "required",
        "additionalProperties",
        "items",
        "prefixItems",
    ]) {
        Some(Types::CONTAINER)
    } else if has(&["pattern", "minLength", "maxLength", "format"]) {
        Some(Types::TEXT)
    } else if has(&[
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
    ]) {
        Some(Types::NUMBER)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn types_of_arguments_follow_references_and_combinations() {
        let schema = json!({
            "$defs": {"size": {"anyOf": [{"type": "integer"}, {"type": "null"}]}},
            "properties": {
                "any": {},
                "text": {"maxLength": 3},
                "size": {"$ref": "#/$defs/size"},
                "both": {"type": ["string", "number"], "allOf": [{"type": ["number", "boolean"]}]},
                "list": {"items": {"type": "string"}},
            },
            "additionalProperties": {"type": "boolean"},
        });
        let types = ArgumentTypes::of(&schema);
        for (name, expected) in [
            ("any", Types::TEXT),
            ("text", Types::TEXT),
            ("size", Types::NUMBER.with(Types::NULL)),
            ("both", Types::NUMBER),
            ("list", Types::CONTAINER),
            ("undeclared", Types::BOOLEAN),
        ] {
            assert_eq!(types.get(name), expected, "{name}");
        }
    }

    /// Without a limit, the number of visits would be 100 to the power of 16.
    #[test]
    fn references_that_multiply_are_visited_for_a_bounded_time() {
        let all = vec![json!({"$ref": "#/$defs/a"}); 100];
        let schema = json!({
            "$defs": {"a": {"anyOf": all}},
            "properties": {"text": {"$ref": "#/$defs/a"}},
            "anyOf": all,
        });
        assert_eq!(ArgumentTypes::of(&schema).get("text"), Types::TEXT);
    }
}
