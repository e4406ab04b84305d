//! The types of values that a schema accepts. Where texts have no quotes, they decide how a value is read.

use std::collections::{HashMap, HashSet};

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

/// The most rounds in which types of schemas that refer to each other in a circle are found. Without a circle, two suffice.
const ROUNDS: usize = 16;

/// Keywords with schemas of the same value.
const COMBINATIONS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

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
        let parts = followed(schema, [schema]).into_iter().flat_map(in_place);
        let parts: Vec<_> = parts.collect();
        let declared = parts
            .iter()
            .filter_map(|members| members.get("properties").and_then(Value::as_object));
        let declared: Vec<_> = declared.flatten().collect();
        let others = parts
            .iter()
            .filter_map(|members| members.get("additionalProperties"));
        let others: Vec<_> = others.collect();
        let values = declared.iter().map(|(_, schema)| *schema);
        let known = Known::of(schema, values.chain(others.iter().copied()));
        let mut types = Self::default();
        for (name, schema) in declared {
            let found = known.get(schema).unwrap_or(Types::TEXT);
            let named = types.named.entry(name.clone()).or_default();
            *named = named.with(found);
        }
        let others = others.into_iter().filter_map(|schema| known.get(schema));
        types.others = others.reduce(Types::with).unwrap_or_default();
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

/// The types of schemas, each of which is identified by its address. They are found once for each schema, because paths of
/// references may be far more than schemas.
struct Known<'a> {
    root: &'a Value,
    types: HashMap<*const Value, Option<Types>>,
}

impl<'a> Known<'a> {
    /// Finds the types of schemas, and of those to which they refer within `root`.
    fn of(root: &'a Value, schemas: impl IntoIterator<Item = &'a Value>) -> Self {
        let order = followed(root, schemas);
        let mut known = Self {
            root,
            types: HashMap::new(),
        };
        for _ in 0..ROUNDS {
            let mut changed = false;
            for schema in &order {
                let found = known.find(schema);
                changed |= known.types.insert(*schema, found) != Some(found);
            }
            if !changed {
                break;
            }
        }
        known
    }

    /// Returns the types that a schema accepts; `None` if it names none.
    fn get(&self, schema: &'a Value) -> Option<Types> {
        self.types.get(&std::ptr::from_ref(schema)).copied()?
    }

    /// Computes the types that a schema accepts from those of the schemas to which it refers.
    fn find(&self, schema: &'a Value) -> Option<Types> {
        let members = schema.as_object()?;
        let mut found = keyword_types(members);
        let mut narrow = |types: Option<Types>| {
            found = match (found, types) {
                (Some(found), Some(types)) => Some(Types(found.0 & types.0)),
                (found, types) => found.or(types),
            };
        };
        let target = referred(self.root, members);
        narrow(target.and_then(|schema| self.get(schema)));
        for schema in schemas(members, "allOf").into_iter().flatten() {
            narrow(self.find(schema));
        }
        for keyword in ["anyOf", "oneOf"] {
            let each = schemas(members, keyword).into_iter().flatten();
            let known = each.filter_map(|schema| self.find(schema));
            narrow(known.reduce(Types::with));
        }
        found
    }
}

/// Returns schemas and those to which they refer within `root`, each once and after the ones to which it refers, unless
/// they refer to each other in a circle.
fn followed<'a>(root: &'a Value, schemas: impl IntoIterator<Item = &'a Value>) -> Vec<&'a Value> {
    let mut order = Vec::new();
    let mut seen = HashSet::new();
    // A schema whose references have been followed is `true`. Recursion would be as deep as a chain of references is long.
    let mut pending: Vec<_> = schemas.into_iter().map(|schema| (schema, false)).collect();
    while let Some((schema, is_followed)) = pending.pop() {
        if is_followed {
            order.push(schema);
        } else if seen.insert(std::ptr::from_ref(schema)) {
            pending.push((schema, true));
            let members = in_place(schema).into_iter();
            let targets = members.filter_map(|members| referred(root, members));
            pending.extend(targets.map(|target| (target, false)));
        }
    }
    order
}

/// Returns the members of a schema, and of the schemas within it that describe the same value.
fn in_place(schema: &Value) -> Vec<&Map<String, Value>> {
    let mut all = Vec::new();
    let mut pending = vec![schema];
    while let Some(schema) = pending.pop() {
        let Some(members) = schema.as_object() else {
            continue;
        };
        all.push(members);
        for keyword in COMBINATIONS {
            pending.extend(schemas(members, keyword).into_iter().flatten());
        }
    }
    all
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

    #[test]
    fn references_in_a_circle_find_the_types_of_all_alternatives() {
        let schema = json!({
            "$defs": {
                "a": {"anyOf": [{"$ref": "#/$defs/b"}, {"type": "string"}]},
                "b": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "number"}]},
                "itself": {"$ref": "#/$defs/itself"},
            },
            "properties": {
                "a": {"$ref": "#/$defs/a"},
                "b": {"$ref": "#/$defs/b"},
                "itself": {"$ref": "#/$defs/itself"},
            },
            "allOf": [{"$ref": "#"}],
        });
        let types = ArgumentTypes::of(&schema);
        let both = Types::TEXT.with(Types::NUMBER);
        assert_eq!((types.get("a"), types.get("b")), (both, both));
        assert_eq!(types.get("itself"), Types::TEXT);
    }

    /// Each definition refers twice to the next, so that 2 to the power of `LENGTH` paths lead to the last.
    #[test]
    fn references_that_multiply_are_followed_once() {
        const LENGTH: usize = 40;
        let chain = |name: &str, last: Value| {
            let each = (0..LENGTH).map(|at| {
                let next = json!({"$ref": format!("#/$defs/{name}{}", at + 1)});
                (format!("{name}{at}"), json!({"anyOf": [next, next]}))
            });
            let last = (format!("{name}{LENGTH}"), last);
            each.chain([last]).collect::<Vec<_>>()
        };
        let values = chain("value", json!({"type": "integer"}));
        let objects = chain(
            "object",
            json!({"properties": {"count": {"$ref": "#/$defs/value0"}}}),
        );
        let definitions: Map<_, _> = values.into_iter().chain(objects).collect();
        let schema = json!({"$defs": definitions, "$ref": "#/$defs/object0"});
        assert_eq!(ArgumentTypes::of(&schema).get("count"), Types::NUMBER);
    }
}
