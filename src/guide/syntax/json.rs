//! The expressions of values that are JSON.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::rules::Rules;
use super::texts;
use crate::guide::schema::{LIMIT, spaced};

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
    let [low, high] = [
        nearest(schema, ["minimum", "exclusiveMinimum"], f64::max),
        nearest(schema, ["maximum", "exclusiveMaximum"], f64::min),
    ];
    if low.is_none() && high.is_none() && !schema.contains_key("multipleOf") {
        return number(integer).to_owned();
    }
    let kind = if integer { "integer" } else { "number" };
    let mut bounds = schema.clone();
    bounds.insert("type".into(), kind.into());
    if low.is_none() {
        bounds.insert("minimum".into(), (-far(high.map(|high| -high))).into());
    }
    if high.is_none() {
        bounds.insert("maximum".into(), far(low).into());
    }
    format!("%json {}", spaced(bounds.into()))
}

/// Returns the bound that some keywords set.
fn nearest(
    schema: &Map<String, Value>,
    keywords: [&str; 2],
    nearer: fn(f64, f64) -> f64,
) -> Option<f64> {
    let each = keywords
        .into_iter()
        .filter_map(|keyword| schema.get(keyword));
    each.filter_map(Value::as_f64).reduce(nearer)
}

/// Returns the upper bound of numbers above `low`.
fn far(low: Option<f64>) -> i64 {
    const USUAL: i64 = 999_999_999_999_999;
    #[allow(clippy::cast_precision_loss)]
    let is_usual = low.is_none_or(|low| low < USUAL as f64);
    if is_usual { USUAL } else { LIMIT }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_with_a_far_bound_has_a_farther_one_on_the_other_side() {
        for (schema, expected) in [
            (json!({"minimum": 1}), [1, 999_999_999_999_999]),
            (
                json!({"minimum": 1_000_000_000_000_000_i64}),
                [1_000_000_000_000_000, LIMIT],
            ),
            (json!({"maximum": -1}), [-999_999_999_999_999, -1]),
            (json!({"maximum": -LIMIT}), [-LIMIT, -LIMIT]),
            (
                json!({"multipleOf": 2}),
                [-999_999_999_999_999, 999_999_999_999_999],
            ),
        ] {
            let members = schema.as_object().expect("an object");
            let lark = bounded(members, true);
            let json = lark.strip_prefix("%json ").expect(&lark);
            let json: Value = serde_json::from_str(json).expect(json);
            let bounds = [&json["minimum"], &json["maximum"]];
            assert_eq!(bounds.map(Value::as_i64), expected.map(Some), "{schema}");
        }
    }
}
