//! Rewrites `oneOf`: llguidance treats it as `anyOf`, which is the same if no value fits two alternatives.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::keywords::{allows_nothing, names};
use super::node::Node;
use super::pointer::{resolved, target};

/// The most alternatives that are compared with each other.
const COMPARED: usize = 64;
/// The depth to which two schemas are compared.
const DEEPEST: usize = 6;

pub(super) fn fit(node: &mut Node<'_>) {
    let Some(each) = node.members.get("oneOf").and_then(Value::as_array) else {
        return;
    };
    if let Some(exclusive) = exclusive(&node.members, each) {
        node.members.insert("oneOf".into(), exclusive.into());
        return;
    }
    let pointers = (0..each.len()).map(|at| format!("{}/oneOf/{at}", node.pointer));
    let found: Option<Vec<_>> = pointers
        .map(|pointer| resolved(node.source, &pointer))
        .collect();
    let Some(found) = found else {
        node.list(
            "oneOf",
            "the alternatives of \"oneOf\" have references that cannot be followed",
        );
        return;
    };
    if let Some(name) = discriminator(&found) {
        // This narrows an alternative in which the member is optional.
        node.required.extend(
            found
                .into_iter()
                .map(|(pointer, _)| (pointer, name.clone())),
        );
        return;
    }
    let compare = Compare(node.source);
    let pairs = (0..found.len()).flat_map(|at| (0..at).map(move |other| (at, other)));
    let mut schemas = pairs.map(|(at, other)| (found[at].1, found[other].1));
    if found.len() > COMPARED || !schemas.all(|(a, b)| compare.are_disjoint(a, b, DEEPEST)) {
        node.list("oneOf", "a value may fit several alternatives of \"oneOf\", of which only one may be; use \"anyOf\"");
    }
}

/// Returns alternatives that only require members, each without the members of the others; `None` if there are others.
fn exclusive(members: &Map<String, Value>, each: &[Value]) -> Option<Vec<Value>> {
    const BESIDE: [&str; 3] = ["required", "title", "description"];
    let is_object = members.get("type").is_some_and(|kind| kind == "object");
    let required = each.iter().map(|schema| {
        let schema = schema.as_object()?;
        let is_plain = schema.keys().all(|key| BESIDE.contains(&key.as_str()));
        let names = schema.get("required").filter(|_| is_plain)?.as_array()?;
        names
            .iter()
            .map(Value::as_str)
            .collect::<Option<HashSet<_>>>()
    });
    let required = required.collect::<Option<Vec<_>>>()?;
    if !is_object || required.len() > COMPARED {
        return None;
    }
    let each = required.iter().enumerate().map(|(at, own)| {
        let others = required
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != at);
        let missing = others.map(|(_, other)| other.difference(own).min());
        let missing = missing.collect::<Option<Vec<_>>>()?;
        let forbidden = missing
            .into_iter()
            .map(|name| ((*name).to_owned(), Value::Bool(false)));
        let mut own: Vec<_> = own.iter().copied().collect();
        own.sort_unstable();
        Some(json!({"required": own, "properties": forbidden.collect::<Map<_, _>>()}))
    });
    each.collect()
}

/// Returns the name of a member that has different constants in all of these objects.
fn discriminator(found: &[(String, &Value)]) -> Option<String> {
    let declared = |schema: &'_ Value| {
        let is_object = schema.get("type").is_some_and(|kind| kind == "object");
        is_object
            .then(|| schema.get("properties")?.as_object().cloned())
            .flatten()
    };
    let all: Vec<Map<String, Value>> = found
        .iter()
        .map(|(_, schema)| declared(schema))
        .collect::<Option<_>>()?;
    let differs = |name: &&String| {
        let mut seen = HashSet::new();
        all.iter().all(|declared| {
            let texts = declared.get(*name).and_then(constants);
            texts.is_some_and(|texts| texts.into_iter().all(|text| seen.insert(text.to_string())))
        })
    };
    all.first()?.keys().find(differs).cloned()
}

/// Returns the values that a schema lists. Numbers are left out, because 1 and 1.0 are equal.
fn constants(schema: &Value) -> Option<Vec<&Value>> {
    let listed = match (schema.get("const"), schema.get("enum")) {
        (Some(one), _) => vec![one],
        (None, Some(Value::Array(each))) => each.iter().collect(),
        _ => return None,
    };
    let is_plain = |value: &&Value| value.is_string() || value.is_boolean() || value.is_null();
    listed.iter().all(is_plain).then_some(listed)
}

struct Compare<'a>(&'a Value);

impl<'a> Compare<'a> {
    /// Whether it is certain that no value fits both schemas.
    fn are_disjoint(&self, a: &'a Value, b: &'a Value, deep: usize) -> bool {
        let (Some(deep), Some(a), Some(b)) = (deep.checked_sub(1), self.follow(a), self.follow(b))
        else {
            return false;
        };
        if allows_nothing(a) || allows_nothing(b) {
            return true;
        }
        are_types_disjoint(a, b)
            || are_constants_disjoint(a, b)
            || self.are_members_disjoint(a, b, deep)
            || self.are_parts_disjoint(a, b, deep)
            || self.are_parts_disjoint(b, a, deep)
    }

    fn follow(&self, schema: &'a Value) -> Option<&'a Value> {
        match schema.get("$ref").and_then(Value::as_str) {
            None => Some(schema),
            Some(reference) => Some(resolved(self.0, &target(reference)?)?.1),
        }
    }

    /// Whether both are objects, and a member that one of them requires differs.
    fn are_members_disjoint(&self, a: &'a Value, b: &'a Value, deep: usize) -> bool {
        let is_object = |schema: &Value| types(schema).is_some_and(|kinds| kinds == ["object"]);
        if !is_object(a) || !is_object(b) {
            return false;
        }
        let required = [a, b].map(|schema| schema.get("required").and_then(Value::as_array));
        let mut required = required
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(Value::as_str);
        required.any(|name| match (member(a, name), member(b, name)) {
            (Some(a), Some(b)) => self.are_disjoint(a, b, deep),
            _ => false,
        })
    }

    /// Whether each alternative of `a`, or one of its parts that all apply, is disjoint from `b`.
    fn are_parts_disjoint(&self, a: &'a Value, b: &'a Value, deep: usize) -> bool {
        let parts = |keyword| a.get(keyword).and_then(Value::as_array);
        let some = ["anyOf", "oneOf"].into_iter().filter_map(parts);
        let mut some = some.map(|parts| parts.iter().all(|part| self.are_disjoint(part, b, deep)));
        let all = parts("allOf");
        some.any(|disjoint| disjoint)
            || all.is_some_and(|parts| parts.iter().any(|part| self.are_disjoint(part, b, deep)))
    }
}

/// Returns the schema of a member; `false` if the object cannot have it.
fn member<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    let declared = schema
        .get("properties")
        .and_then(|declared| declared.get(name));
    let is_open = schema.get("patternProperties").is_some();
    declared.or_else(|| schema.get("additionalProperties").filter(|_| !is_open))
}

/// Returns the types that a schema allows, integers as numbers.
fn types(schema: &Value) -> Option<Vec<String>> {
    let kind = |value: &Value| match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let listed = match (schema.get("type"), schema.get("const"), schema.get("enum")) {
        (Some(types), ..) => names(types),
        (_, Some(one), _) => vec![kind(one).to_owned()],
        (_, _, Some(Value::Array(each))) => each.iter().map(|one| kind(one).to_owned()).collect(),
        _ => return None,
    };
    let number = |name: String| {
        if name == "integer" {
            "number".to_owned()
        } else {
            name
        }
    };
    Some(listed.into_iter().map(number).collect())
}

fn are_constants_disjoint(a: &Value, b: &Value) -> bool {
    match (constants(a), constants(b)) {
        (Some(a), Some(b)) => !a.iter().any(|value| b.contains(value)),
        _ => false,
    }
}

fn are_types_disjoint(a: &Value, b: &Value) -> bool {
    let (Some(a), Some(b)) = (types(a), types(b)) else {
        return false;
    };
    !a.iter().any(|kind| b.contains(kind))
}
