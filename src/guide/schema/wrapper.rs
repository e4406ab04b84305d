//! Unwraps a schema from the object of OpenAI's API, and detects JSON that is not a schema.

use serde_json::{Map, Value, json};

/// Keywords of JSON Schema, in any of its drafts and dialects.
const KNOWN: [&str; 72] = [
    "$anchor",
    "$comment",
    "$defs",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$recursiveAnchor",
    "$recursiveRef",
    "$ref",
    "$schema",
    "$vocabulary",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "default",
    "definitions",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "deprecated",
    "description",
    "discriminator",
    "else",
    "enum",
    "example",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "externalDocs",
    "format",
    "id",
    "if",
    "items",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "nullable",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "readOnly",
    "required",
    "then",
    "title",
    "type",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
    "writeOnly",
    "x-guidance",
    "xml",
    "divisibleBy",
    "disallow",
    "extends",
];

/// Members next to the schema in OpenAI's API.
const BESIDE: [&str; 5] = ["name", "description", "strict", "schema", "type"];

/// Takes a schema out of the object of OpenAI's API. Returns the schema and the pointer to it.
///
/// # Errors
/// If it has members, none of which is a keyword.
pub(in crate::guide) fn unwrapped(given: Value) -> Result<(Value, &'static str), String> {
    let Value::Object(mut members) = given else {
        return Ok((given, ""));
    };
    let kind = members.get("type").and_then(Value::as_str);
    if kind == Some("json_object") && members.len() == 1 {
        return Ok((json!({"type": "object"}), ""));
    }
    if kind == Some("json_schema")
        && let Some(Value::Object(inner)) = members.get_mut("json_schema")
        && let Some(schema) = wrapped(inner)
    {
        return Ok((schema, "/json_schema/schema"));
    }
    if let Some(schema) = wrapped(&mut members) {
        return Ok((schema, "/schema"));
    }
    if !members.is_empty()
        && !members
            .keys()
            .any(|keyword| KNOWN.contains(&keyword.as_str()))
    {
        return Err(unknown(&members));
    }
    Ok((members.into(), ""))
}

fn wrapped(members: &mut Map<String, Value>) -> Option<Value> {
    let is_schema = members
        .get("schema")
        .is_some_and(|schema| schema.is_object() || schema.is_boolean());
    let is_named =
        members.contains_key("name") || members.contains_key("strict") || members.len() == 1;
    let is_all = members.keys().all(|name| BESIDE.contains(&name.as_str()));
    let kind = members.get("type");
    let is_wrapper =
        is_schema && is_named && is_all && kind.is_none_or(|kind| kind == "json_schema");
    is_wrapper.then(|| members.shift_remove("schema")).flatten()
}

fn unknown(members: &Map<String, Value>) -> String {
    const SHOWN: usize = 3;
    let shown = members.keys().take(SHOWN).map(|name| {
        let short: String = name.chars().take(40).collect();
        format!("{short:?}")
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    let more = if members.len() > SHOWN { ", ..." } else { "" };
    format!(
        "it has no keyword of JSON Schema, only {shown}{more}; give the members of an object as \
         {{\"type\": \"object\", \"properties\": {{...}}}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_unwrapped_and_other_json_is_refused() {
        let null = json!({"type": "null"});
        for (given, place) in [
            (null.clone(), ""),
            (
                json!({"name": "n", "strict": true, "schema": (null)}),
                "/schema",
            ),
            (
                json!({"type": "json_schema", "name": "n", "schema": (null)}),
                "/schema",
            ),
            (
                json!({"type": "json_schema", "json_schema": {"name": "n", "schema": (null)}}),
                "/json_schema/schema",
            ),
        ] {
            assert_eq!(unwrapped(given), Ok((null.clone(), place)));
        }
        assert_eq!(
            unwrapped(json!({"type": "json_object"})),
            Ok((json!({"type": "object"}), ""))
        );
        for schema in [json!({}), json!(true), json!({"title": "x", "schema": 1})] {
            assert_eq!(unwrapped(schema.clone()), Ok((schema, "")));
        }
        let why = unwrapped(json!({"city": {"type": "string"}})).expect_err("it has none");
        assert!(why.contains("only \"city\"; give"), "{why}");
    }
}
