//! The expressions of values that are JSON.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::rules::Rules;
use super::texts;
use crate::guide::schema::spaced;

impl Rules<'_> {
    /// Returns an expression for JSON of one type that a schema without combinations describes.
    pub(super) fn json(&self, mut schema: Map<String, Value>, kind: &str) -> String {
        let patterns = schema
            .get_mut("pattern")
            .and_then(|all| all.as_array_mut().map(std::mem::take));
        if let Some(patterns) = patterns {
            schema.shift_remove("pattern");
            let each = patterns
                .into_iter()
                .map(|pattern| json!({"pattern": pattern}));
            schema.insert("allOf".into(), each.collect());
        }
        schema.insert("type".into(), kind.into());
        let refers = schema.values().any(|one| {
            let mut all = HashSet::new();
            references(one, &mut all);
            !all.is_empty()
        });
        for keyword in DEFINITIONS {
            if let Some(definitions) = self.root.get(keyword).filter(|_| refers) {
                schema.insert(keyword.into(), definitions.clone());
            }
        }
        format!("%json {}", spaced(schema.into()))
    }

    /// Whether an array or an object needs rules of JSON for keywords without rules of their own. The references of its
    /// schema are to definitions, so that it can stand alone. Its numbers have no bound.
    pub(super) fn needs_json(&self, schema: &Map<String, Value>) -> bool {
        const KEYWORDS: [&str; 3] = ["patternProperties", "minProperties", "maxProperties"];
        if !KEYWORDS.iter().any(|keyword| schema.contains_key(*keyword)) {
            return false;
        }
        let mut all = HashSet::new();
        schema.values().for_each(|one| references(one, &mut all));
        if !all.is_empty() {
            let definitions = DEFINITIONS
                .iter()
                .filter_map(|keyword| self.root.get(*keyword));
            definitions.for_each(|one| references(one, &mut all));
        }
        let is_definition =
            |one: &&str| one.starts_with("#/$defs/") || one.starts_with("#/definitions/");
        self.syntax.nests_json() && all.iter().all(is_definition)
    }
}

/// Keywords with targets of references.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// Collects the references within a schema.
fn references<'a>(schema: &'a Value, all: &mut HashSet<&'a str>) {
    match schema {
        Value::Object(members) => {
            all.extend(members.get("$ref").and_then(Value::as_str));
            members.values().for_each(|one| references(one, all));
        }
        Value::Array(items) => items.iter().for_each(|one| references(one, all)),
        _ => {}
    }
}

/// Returns the expression of a number without bounds.
pub(super) fn number(integer: bool) -> &'static str {
    if integer {
        texts::INTEGER
    } else {
        texts::DECIMAL
    }
}

/// Returns the expression of a number within its bounds. It has a bound on both sides, so that whole numbers end.
pub(super) fn bounded(schema: &Map<String, Value>, integer: bool) -> String {
    const LARGEST: i64 = 999_999_999_999_999;
    let has = |keyword: &str| schema.contains_key(keyword);
    let low = has("minimum") || has("exclusiveMinimum");
    let high = has("maximum") || has("exclusiveMaximum");
    if !low && !high && !has("multipleOf") {
        return number(integer).to_owned();
    }
    let kind = if integer { "integer" } else { "number" };
    let mut bounds = schema.clone();
    bounds.insert("type".into(), kind.into());
    if !low {
        bounds.insert("minimum".into(), (-LARGEST).into());
    }
    if !high {
        bounds.insert("maximum".into(), LARGEST.into());
    }
    format!("%json {}", spaced(bounds.into()))
}
