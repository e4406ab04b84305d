//! Finds the place of an error in a JSON Schema: a JSON pointer to the innermost schema that fails alone in the same
//! way.

use serde_json::Value;

use crate::guide::schema::part;

/// The most schemas that are tried.
pub(super) const TRIES: usize = 256;

/// Keywords whose value is a schema, or an array of them.
const SCHEMAS: [&str; 16] = [
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "oneOf",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
];

/// Keywords whose value has schemas by their names. Definitions come first, because an error in one appears wherever it
/// is used.
const NAMED: [&str; 5] = [
    "$defs",
    "definitions",
    "properties",
    "patternProperties",
    "dependentSchemas",
];

/// Keywords with targets of references.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// Returns the pointer to the innermost schema that `fails`, as the whole does.
pub(super) fn pointer(schema: &Value, mut fails: impl FnMut(&Value) -> bool) -> String {
    let (mut at, mut pointer, mut tries) = (schema, String::new(), TRIES);
    loop {
        let failing = children(at).into_iter().find(|(_, child)| {
            let more = tries > 0;
            tries = tries.saturating_sub(1);
            more && fails(&alone(schema, child))
        });
        let Some((path, child)) = failing else {
            break;
        };
        pointer += &path;
        at = child;
    }
    pointer
}

/// Returns the schemas directly within one, and the pointers to them from there.
fn children(schema: &Value) -> Vec<(String, &Value)> {
    let mut children = Vec::new();
    for keyword in NAMED {
        let named = schema.get(keyword).and_then(Value::as_object);
        for (name, child) in named.into_iter().flatten() {
            children.push((part(keyword) + &part(name), child));
        }
    }
    for keyword in SCHEMAS {
        match schema.get(keyword) {
            Some(Value::Array(each)) => {
                let each = each.iter().enumerate();
                children.extend(each.map(|(at, child)| (format!("/{keyword}/{at}"), child)));
            }
            Some(child) => children.push((part(keyword), child)),
            None => {}
        }
    }
    children
}

/// Returns a part of a schema, with the targets of its references.
pub(super) fn alone(whole: &Value, part: &Value) -> Value {
    let mut part = part.clone();
    if let Some(part) = part.as_object_mut() {
        for keyword in DEFINITIONS {
            if let Some(definitions) = whole.get(keyword) {
                part.entry(keyword).or_insert_with(|| definitions.clone());
            }
        }
    }
    part
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_innermost_schema_is_found_and_tries_are_bounded() {
        let mut tried = 0;
        let mut found = |schema: &Value| {
            pointer(schema, |part| {
                tried += 1;
                part.to_string().contains("not")
            })
        };
        let deep = json!({"properties": {"a/b": {"items": [{}, {"anyOf": [{"not": {}}]}]}}});
        assert_eq!(found(&deep), "/properties/a~1b/items/1/anyOf/0");
        assert_eq!(found(&json!({"title": "not"})), "");
        let wide = |n: usize| (0..n).map(|at| (at.to_string(), json!({}))).collect();
        let wide: serde_json::Map<_, _> = wide(10_000);
        assert_eq!(found(&json!({"properties": wide, "x": "not"})), "");
        assert!(tried < 2 * TRIES);
    }
}
