//! Merges two schemas into one that accepts what both accept.

use serde_json::{Map, Value, json};

/// A schema, and keywords of it that are not enforced.
#[derive(Clone, Debug, Default)]
pub(super) struct Merged {
    pub(super) schema: Map<String, Value>,
    pub(super) lost: Vec<String>,
}

/// Keywords of which the largest value holds, and those of which the smallest does.
const LEAST: [&str; 5] = [
    "minimum",
    "exclusiveMinimum",
    "minLength",
    "minItems",
    "minProperties",
];
const MOST: [&str; 5] = [
    "maximum",
    "exclusiveMaximum",
    "maxLength",
    "maxItems",
    "maxProperties",
];

impl Merged {
    /// Adds the keywords of another schema.
    pub(super) fn with(mut self, other: &Map<String, Value>) -> Self {
        if self.schema.is_empty() {
            self.schema.clone_from(other);
            return self;
        }
        let properties = properties(&self.schema, other);
        for (keyword, value) in other {
            let Some(own) = self.schema.get_mut(keyword) else {
                self.schema.insert(keyword.clone(), value.clone());
                continue;
            };
            if own == value {
                continue;
            }
            match keyword.as_str() {
                "type" => *own = types_in_both(own, value).into(),
                "enum" => retain(own, |one| contains(value, one)),
                "required" | "pattern" => extend(own, value),
                keyword if LEAST.contains(&keyword) => {
                    *own = chosen(own, value, number(value) > number(own));
                }
                keyword if MOST.contains(&keyword) => {
                    *own = chosen(own, value, number(value) < number(own));
                }
                "items" | "additionalProperties" => *own = both(own, value),
                "multipleOf" | "format" | "prefixItems" | "patternProperties" => {
                    self.lost.push(keyword.clone());
                }
                // Properties follow; other keywords are annotations.
                _ => {}
            }
        }
        if let Some(properties) = properties {
            self.schema.insert("properties".into(), properties.into());
        }
        self
    }
}

/// Returns the properties of both, each with what either says about it.
fn properties(one: &Map<String, Value>, other: &Map<String, Value>) -> Option<Map<String, Value>> {
    let declared = |schema: &Map<String, Value>| {
        let properties = schema.get("properties").and_then(Value::as_object);
        properties.cloned().unwrap_or_default()
    };
    let (first, second) = (declared(one), declared(other));
    let open = |schema: &Map<String, Value>| !schema.contains_key("additionalProperties");
    if first.is_empty() && second.is_empty() || open(one) && second.is_empty() {
        return None;
    }
    let of = |declared: &Map<String, Value>, schema: &Map<String, Value>, name: &str| {
        let own = declared
            .get(name)
            .or_else(|| schema.get("additionalProperties"));
        own.cloned().unwrap_or(Value::Bool(true))
    };
    let names = first
        .keys()
        .chain(second.keys().filter(|name| !first.contains_key(*name)));
    let each = names.map(|name| {
        let schema = both(&of(&first, one, name), &of(&second, other, name));
        (name.clone(), schema)
    });
    Some(each.collect())
}

/// Returns a schema for what both accept.
fn both(one: &Value, other: &Value) -> Value {
    match (one, other) {
        (Value::Bool(true), schema) | (schema, Value::Bool(true)) => schema.clone(),
        (Value::Bool(false), _) | (_, Value::Bool(false)) => Value::Bool(false),
        _ if one == other => one.clone(),
        _ => json!({"allOf": [one, other]}),
    }
}

fn types_in_both(one: &Value, other: &Value) -> Vec<Value> {
    let (one, other) = (names(one), names(other));
    let integer = |names: &[&str]| names.contains(&"integer");
    let number = |names: &[&str]| names.contains(&"number");
    let mut types: Vec<_> = one
        .iter()
        .filter(|name| other.contains(name))
        .copied()
        .collect();
    let narrowed = integer(&one) && number(&other) || number(&one) && integer(&other);
    if narrowed && !types.contains(&"integer") {
        types.push("integer");
    }
    types.into_iter().map(Value::from).collect()
}

/// Returns the names in a `type`.
pub(super) fn names(types: &Value) -> Vec<&str> {
    match types {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn chosen(own: &Value, other: &Value, is_other: bool) -> Value {
    if is_other { other } else { own }.clone()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

fn contains(values: &Value, one: &Value) -> bool {
    values.as_array().is_some_and(|values| values.contains(one))
}

fn retain(values: &mut Value, keep: impl Fn(&Value) -> bool) {
    if let Some(values) = values.as_array_mut() {
        values.retain(keep);
    }
}

fn extend(values: &mut Value, more: &Value) {
    if let (Some(values), Some(more)) = (values.as_array_mut(), more.as_array()) {
        for one in more {
            if !values.contains(one) {
                values.push(one.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merged_schema_accepts_what_both_accept() {
        for (one, other, expected, lost) in [
            (
                json!({"type": ["number", "null"], "minimum": 1, "maximum": 9}),
                json!({"type": ["integer", "string"], "minimum": 2, "maximum": 10}),
                json!({"type": ["integer"], "minimum": 2, "maximum": 9}),
                None,
            ),
            (
                json!({"enum": [1, 2], "required": ["a"], "pattern": ["a"]}),
                json!({"enum": [2, 3], "required": ["b"], "pattern": ["b"]}),
                json!({"enum": [2], "required": ["a", "b"], "pattern": ["a", "b"]}),
                None,
            ),
            (
                json!({"properties": {"a": true}, "additionalProperties": false}),
                json!({"properties": {"a": {"type": "null"}, "b": true}}),
                json!({"properties": {"a": {"type": "null"}, "b": false}, "additionalProperties": false}),
                None,
            ),
            (
                json!({"multipleOf": 2}),
                json!({"multipleOf": 3}),
                json!({"multipleOf": 2}),
                Some("multipleOf"),
            ),
        ] {
            let both = [&one, &other].map(|schema| schema.as_object().expect("an object"));
            let merged = both.into_iter().fold(Merged::default(), Merged::with);
            assert_eq!(Value::Object(merged.schema), expected, "{one} {other}");
            assert_eq!(merged.lost.first().map(String::as_str), lost);
        }
    }
}
