//! Rewrites keywords that llguidance does not know.

use serde_json::{Map, Value};

use super::node::Node;
use super::pointer::target;

/// Keywords that restrict nothing, but that llguidance refuses.
const ANNOTATIONS: [&str; 8] = [
    "$dynamicAnchor",
    "$recursiveAnchor",
    "$vocabulary",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "deprecated",
    "examples",
];

/// Keywords that are never enforced, and the keyword without which each of them has no meaning.
const NEVER: [(&str, Option<&str>); 11] = [
    ("$dynamicRef", None),
    ("$recursiveRef", None),
    ("contains", None),
    ("dependencies", None),
    ("dependentRequired", None),
    ("dependentSchemas", None),
    ("not", None),
    ("maxContains", Some("contains")),
    ("minContains", Some("contains")),
    ("then", Some("if")),
    ("else", Some("if")),
];

/// Keywords that apply other schemas to the same value. An `unevaluated` keyword depends on them.
const IN_PLACE: [&str; 9] = [
    "$dynamicRef",
    "$recursiveRef",
    "$ref",
    "allOf",
    "anyOf",
    "contains",
    "dependentSchemas",
    "if",
    "oneOf",
];

/// Whether no value fits a schema.
pub(super) fn allows_nothing(schema: &Value) -> bool {
    let excluded = schema.get("not");
    *schema == Value::Bool(false) || excluded.is_some_and(allows_everything)
}

/// Whether every value fits a schema.
pub(super) fn allows_everything(schema: &Value) -> bool {
    match schema {
        Value::Bool(all) => *all,
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

pub(super) fn fit(node: &mut Node<'_>) {
    node.members
        .retain(|keyword, _| !ANNOTATIONS.contains(&keyword.as_str()));
    unevaluated(node);
    excluded_types(node);
    if node.members.get("not").is_some_and(allows_nothing) {
        node.members.shift_remove("not");
    }
    let unique = node.members.get("uniqueItems") == Some(&Value::Bool(true));
    let most = node.members.get("maxItems").and_then(Value::as_u64);
    if unique && most.is_none_or(|most| most > 1) {
        node.give_up("uniqueItems", cannot("uniqueItems"));
    }
    node.members.shift_remove("uniqueItems");
    let has = |keyword: Option<&str>, node: &Node<'_>| {
        keyword.is_none_or(|keyword| node.members.contains_key(keyword))
    };
    let means: Vec<_> = NEVER.iter().map(|(_, needs)| has(*needs, node)).collect();
    let decides = ["then", "else"]
        .iter()
        .any(|keyword| node.members.contains_key(*keyword));
    for ((keyword, _), means) in NEVER.into_iter().zip(means) {
        if means {
            node.give_up(keyword, cannot(keyword));
        }
        node.members.shift_remove(keyword);
    }
    if decides {
        node.give_up("if", cannot("if"));
    }
    node.members.shift_remove("if");
}

fn cannot(keyword: &str) -> String {
    format!("{keyword:?} cannot be enforced")
}

/// Without other schemas of the same value, "unevaluated" means "additional".
fn unevaluated(node: &mut Node<'_>) {
    let is_alone = !IN_PLACE
        .iter()
        .any(|keyword| node.members.contains_key(*keyword));
    for (keyword, plain) in [
        ("unevaluatedProperties", "additionalProperties"),
        ("unevaluatedItems", "items"),
    ] {
        let Some(rest) = node.members.get(keyword) else {
            continue;
        };
        // In older drafts, an array applies to the first items alone.
        let is_ruled = node.members.get(plain).map(|plain| !plain.is_array());
        if allows_everything(rest) || is_ruled == Some(true) {
            node.members.shift_remove(keyword);
        } else if is_alone && is_ruled.is_none() {
            let rest = node.members.shift_remove(keyword).unwrap_or_default();
            node.members.insert(plain.to_owned(), rest);
        } else {
            node.give_up(keyword, cannot(keyword));
        }
    }
}

/// Rewrites a `not` that names only types as the types that are left.
fn excluded_types(node: &mut Node<'_>) {
    const TYPES: [&str; 6] = ["null", "boolean", "number", "string", "array", "object"];
    let not = node.members.get("not").and_then(Value::as_object);
    let Some(excluded) = not
        .filter(|not| not.len() == 1)
        .and_then(|not| not.get("type"))
    else {
        return;
    };
    let excluded = names(excluded);
    // A number that is not an integer has no type of its own.
    if excluded.is_empty() || excluded.iter().any(|name| name == "integer") {
        return;
    }
    let own = node.members.get("type").map(names);
    let mut left = own.unwrap_or_else(|| TYPES.map(str::to_owned).to_vec());
    let is_number = |name: &str| name == "integer" && excluded.iter().any(|one| one == "number");
    left.retain(|name| !excluded.contains(name) && !is_number(name));
    if !left.is_empty() {
        node.members.shift_remove("not");
        node.members.insert("type".into(), left.into());
    }
}

/// The names in a `type`.
pub(super) fn names(types: &Value) -> Vec<String> {
    match types {
        Value::String(name) => vec![name.clone()],
        Value::Array(names) => names
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        _ => Vec::new(),
    }
}

/// Removes the name of a dialect other than JSON Schema's own, which other validators ignore. Removes the schema's own
/// name, against which references are resolved, if all references are within the schema.
pub(super) fn without_own_name(schema: &mut Value) {
    let dialect = schema.get("$schema").and_then(Value::as_str);
    let is_known = dialect.is_some_and(|dialect| dialect.contains("//json-schema.org/"));
    if let Some(members) = schema.as_object_mut().filter(|_| !is_known) {
        members.shift_remove("$schema");
    }
    if any_object(schema, &|members| {
        let referred = members.get("$ref").and_then(Value::as_str);
        referred.is_some_and(|referred| !referred.starts_with('#'))
    }) {
        return;
    }
    if let Some(members) = schema.as_object_mut() {
        members.shift_remove("$id");
        members.shift_remove("id");
    }
}

/// Whether a reference may have a target that its pointer within the whole does not show: by a name, or within a schema
/// that has a name of its own.
pub(super) fn has_names(whole: &Value) -> bool {
    let is_named = |members: &Map<String, Value>| {
        let referred = members.get("$ref").and_then(Value::as_str);
        let is_found = |referred| target(referred).is_some_and(|at| whole.pointer(&at).is_some());
        referred.is_some_and(|referred| !is_found(referred))
            || members.get("$id").is_some_and(Value::is_string)
    };
    match whole {
        Value::Object(members) => {
            members.values().any(|value| any_object(value, &is_named)) || {
                let referred = members.get("$ref").and_then(Value::as_str);
                referred.is_some_and(|referred| target(referred).is_none())
            }
        }
        _ => false,
    }
}

fn any_object(json: &Value, is: &impl Fn(&Map<String, Value>) -> bool) -> bool {
    match json {
        Value::Object(members) => {
            is(members) || members.values().any(|value| any_object(value, is))
        }
        Value::Array(items) => items.iter().any(|item| any_object(item, is)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_names_the_keywords_that_are_never_enforced() {
        let manual = include_str!("../../bin/ganglionctl/man/org.ganglion.Llm1.5");
        let after = manual.split_once("\"Keywords that are not enforced\"");
        let (list, _) = after
            .and_then(|(_, after)| after.split_once(".PP\nIn three cases"))
            .expect("a list");
        let words = list.split(|c: char| !c.is_ascii_alphanumeric() && c != '$');
        let never = NEVER.iter().map(|(keyword, _)| *keyword);
        for keyword in never.chain(["if", "unevaluatedItems", "uniqueItems"]) {
            assert!(words.clone().any(|word| word == keyword), "{keyword}");
        }
    }
}
