//! Rewrites `propertyNames`, and limits on the number of an object's members.

use serde_json::{Map, Value};

use super::keywords::{allows_everything, allows_nothing, names};
use super::node::Node;
use super::pointer::{resolved, target};

/// The most bytes of member schemas that are written out for their names.
const WRITTEN: usize = 64 << 10;

/// Keywords without an effect on a name: the format of one is an annotation.
const SILENT: [&str; 11] = [
    "$comment",
    "$id",
    "$schema",
    "default",
    "deprecated",
    "description",
    "examples",
    "format",
    "title",
    "type",
    "x-enum-varnames",
];

pub(super) fn fit(node: &mut Node<'_>) {
    if let Some(given) = node.members.get("propertyNames").cloned() {
        match of_names(node, &given) {
            Some(members) => node.members = members,
            None => node.give_up(
                "propertyNames",
                "\"propertyNames\" can be enforced if it is an enum, or a pattern alone",
            ),
        }
    }
    least(node);
}

/// Returns equivalent members without `propertyNames`; `None` if there are none.
fn of_names(node: &Node<'_>, given: &Value) -> Option<Map<String, Value>> {
    let mut members = node.members.clone();
    members.shift_remove("propertyNames");
    let reference = given.get("$ref").and_then(Value::as_str);
    let rule = match reference.and_then(target) {
        Some(pointer) => resolved(node.source, &pointer)?.1,
        None => given,
    };
    if allows_nothing(rule) {
        members.insert("maxProperties".into(), 0.into());
        return Some(members);
    }
    if allows_everything(rule) {
        return Some(members);
    }
    let rule = rule.as_object()?;
    let is_text = rule
        .get("type")
        .is_none_or(|kind| names(kind).iter().any(|name| name == "string"));
    let said: Vec<_> = rule
        .iter()
        .filter(|(keyword, _)| !SILENT.contains(&keyword.as_str()))
        .collect();
    match said.as_slice() {
        _ if !is_text => None,
        [] => Some(members),
        [(keyword, Value::Array(each))] if *keyword == "enum" => {
            let each = each.iter().filter_map(Value::as_str);
            only(members, &each.collect::<Vec<_>>())
        }
        [(keyword, Value::String(name))] if *keyword == "const" => only(members, &[name]),
        [(keyword, Value::String(pattern))] if *keyword == "pattern" => matching(members, pattern),
        [(keyword, Value::Number(length))] if *keyword == "minLength" => {
            matching(members, &format!("^[\\s\\S]{{{length},}}$"))
        }
        [(keyword, Value::Number(length))] if *keyword == "maxLength" => {
            matching(members, &format!("^[\\s\\S]{{0,{length}}}$"))
        }
        _ => None,
    }
}

/// Returns members with no other names than these.
fn only(mut members: Map<String, Value>, names: &[&str]) -> Option<Map<String, Value>> {
    if members.contains_key("patternProperties") {
        return None;
    }
    let rest = members
        .get("additionalProperties")
        .cloned()
        .unwrap_or(Value::Bool(true));
    if names.len() * rest.to_string().len() > WRITTEN {
        return None;
    }
    let mut declared = match members.shift_remove("properties") {
        Some(Value::Object(declared)) => declared,
        Some(_) => return None,
        None => Map::new(),
    };
    for (name, schema) in &mut declared {
        if !names.contains(&name.as_str()) {
            *schema = Value::Bool(false);
        }
    }
    for name in names.iter().filter(|_| rest != Value::Bool(false)) {
        declared.entry(*name).or_insert_with(|| rest.clone());
    }
    let rest = members.shift_remove("additionalProperties");
    drop(rest);
    members.insert("properties".into(), declared.into());
    members.insert("additionalProperties".into(), false.into());
    Some(members)
}

/// Returns members whose names match a pattern, if no other names are declared.
fn matching(mut members: Map<String, Value>, pattern: &str) -> Option<Map<String, Value>> {
    let is_empty = |keyword: &str| members.get(keyword).is_none_or(allows_everything);
    if !is_empty("properties") || !is_empty("patternProperties") {
        return None;
    }
    let rest = members
        .shift_remove("additionalProperties")
        .unwrap_or(Value::Bool(true));
    let named = Map::from_iter([(pattern.to_owned(), rest)]);
    members.insert("patternProperties".into(), named.into());
    members.insert("additionalProperties".into(), false.into());
    Some(members)
}

/// Gives up a least number of members, because members of the same name would count towards it, and a reader counts
/// them once.
fn least(node: &mut Node<'_>) {
    let members = &node.members;
    let required = members.get("required").and_then(Value::as_array);
    let named = required.map_or(0, Vec::len) as u64;
    let Some(least) = members.get("minProperties").and_then(Value::as_u64) else {
        return;
    };
    if least <= named {
        node.members.shift_remove("minProperties");
        return;
    }
    let are_free = members.get("additionalProperties") != Some(&Value::Bool(false))
        || members.contains_key("patternProperties");
    if are_free && least > named + 1 {
        let why =
            format!("{least} members of which {named} are required could have the same names");
        node.give_up("minProperties", why);
    }
}
