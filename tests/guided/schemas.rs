//! The schemas of the public JSON-Schema-Test-Suite, and validators for them.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

const SUITE: &str = "target/schemas/draft2020-12";

/// A schema of the suite.
pub(crate) struct Group {
    pub(crate) description: String,
    pub(crate) schema: Value,
    /// Instances, each with whether it is valid.
    #[allow(dead_code)] // not all programs with this module use them
    pub(crate) tests: Vec<Value>,
}

/// Returns all schemas in the order of their files.
pub(crate) fn suite() -> Vec<Group> {
    let mut files: Vec<_> = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(SUITE))
        .expect("it was fetched (make deps)")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "json"))
        .collect();
    files.sort();
    let groups = files.iter().flat_map(|file| {
        let text = fs::read_to_string(file).expect("it is read");
        let groups: Vec<Value> = serde_json::from_str(&text).expect("groups");
        groups
    });
    let group = |group: Value| Group {
        description: group["description"].as_str().expect("a text").to_owned(),
        schema: group["schema"].clone(),
        tests: group["tests"].as_array().expect("tests").clone(),
    };
    groups.map(group).collect()
}

/// Returns a validator of a schema, which ignores other dialects than JSON Schema's own.
pub(crate) fn judge(schema: &Value) -> jsonschema::Validator {
    let mut schema = schema.clone();
    let dialect = schema.get("$schema").and_then(Value::as_str);
    if dialect.is_some_and(|dialect| !dialect.contains("//json-schema.org/")) {
        schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    }
    // Next to these keywords, additionalProperties means the same. With unevaluatedProperties, the validator of a schema that
    // refers to itself takes twice the memory for each level of an instance.
    let simple = ["$schema", "properties", "type", "unevaluatedProperties"];
    if let Some(members) = schema.as_object_mut()
        && members.keys().all(|keyword| simple.contains(&&**keyword))
        && let Some(others) = members.shift_remove("unevaluatedProperties")
    {
        members.insert("additionalProperties".into(), others);
    }
    jsonschema::validator_for(&schema).expect("it is a schema")
}

/// Whether a number is a multiple, in exact arithmetic: doubles cannot decide this for fractions.
pub(crate) fn is_multiple(answer: &str, schema: &Value) -> bool {
    let others = ["$schema", "multipleOf"];
    let is_all = |members: &Map<String, Value>| members.keys().all(|key| others.contains(&&**key));
    let of = schema.get("multipleOf").map(Value::to_string);
    let of = of.filter(|_| schema.as_object().is_some_and(is_all));
    of.is_some_and(|of| {
        let digits =
            [answer, &of].map(|number| number.split_once('.').map_or(0, |(_, end)| end.len()));
        let digits = digits[0].max(digits[1]);
        let [number, of] = [answer, &of].map(|number| scaled(number, digits));
        matches!((number, of), (Some(number), Some(of)) if of != 0 && number % of == 0)
    })
}

/// Returns a decimal number without its point, scaled by that many digits.
fn scaled(number: &str, digits: usize) -> Option<i128> {
    let (whole, behind) = number.split_once('.').unwrap_or((number, ""));
    format!("{whole}{behind:0<digits$}").parse().ok()
}
