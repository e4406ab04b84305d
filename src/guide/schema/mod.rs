//! Prepares a JSON Schema for llguidance, which refuses keywords that it cannot enforce. A keyword is rewritten where
//! the result is equal or narrower; otherwise it is removed and listed, which only widens the answers. Keywords that
//! negate, such as `not` and `if`, are removed as a whole.
//! Not here: compiling.

mod alternatives;
mod keywords;
mod loosen;
mod names;
mod node;
mod numbers;
mod pointer;
mod spacing;
mod texts;
mod wrapper;

use std::collections::HashSet;

use serde_json::{Map, Value};

pub(super) use loosen::loosen;
pub(super) use node::Unchecked;
pub(super) use numbers::{LIMIT, inexact};
pub(super) use pointer::{part, target};
pub(super) use spacing::spaced;
pub(super) use texts::scan;
pub(super) use wrapper::unwrapped;

use node::Node;

/// A schema for llguidance, and the keywords that were removed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Prepared {
    pub(super) schema: Value,
    pub(super) unchecked: Vec<Unchecked>,
}

/// Prepares a schema. Definitions without a reference stay as they are.
pub(super) fn prepare(schema: Value) -> Prepared {
    let mut walk = Walk {
        all: keywords::has_names(&schema),
        source: schema.clone(),
        schema,
        pending: vec![String::new()],
        visited: HashSet::new(),
        unchecked: Vec::new(),
        required: Vec::new(),
    };
    let mut order = Vec::new();
    while let Some(pointer) = walk.pending.pop() {
        if walk.visited.insert(pointer.clone()) {
            walk.visit(&pointer);
            order.push(pointer);
        }
    }
    for (pointer, name) in std::mem::take(&mut walk.required) {
        walk.require(&pointer, &name);
    }
    // Moving a schema changes the pointers within it, which are not needed any more.
    for pointer in order.iter().rev() {
        walk.edit(pointer, names::fit);
    }
    let Walk {
        mut schema,
        mut unchecked,
        ..
    } = walk;
    keywords::without_own_name(&mut schema);
    unchecked.sort_by(|a, b| a.pointer.cmp(&b.pointer));
    Prepared { schema, unchecked }
}

struct Walk {
    /// The schema as it was given, to look up references.
    source: Value,
    schema: Value,
    /// Whether definitions are visited even without a reference to them.
    all: bool,
    /// Pointers to schemas that are yet to be visited.
    pending: Vec<String>,
    visited: HashSet<String>,
    unchecked: Vec<Unchecked>,
    /// Pointers to objects, and a name that each of them must require.
    required: Vec<(String, String)>,
}

impl Walk {
    fn visit(&mut self, pointer: &str) {
        let place = self.schema.pointer_mut(pointer);
        if place.as_deref().is_some_and(keywords::allows_nothing) {
            if let Some(place) = place {
                *place = Value::Bool(false);
            }
            return;
        }
        self.edit(pointer, |node| {
            keywords::fit(node);
            numbers::fit(node);
            texts::fit(node);
            alternatives::fit(node);
        });
        let Some(Value::Object(members)) = self.schema.pointer(pointer) else {
            return;
        };
        let mut pending = children(members, pointer);
        if self.all {
            pending.extend(named(members, pointer, &DEFINITIONS));
        }
        let referred = members.get("$ref").and_then(Value::as_str);
        pending.extend(referred.and_then(target));
        self.pending.extend(pending);
    }

    /// Changes the object that `pointer` leads to, if there is one.
    fn edit(&mut self, pointer: &str, change: impl FnOnce(&mut Node<'_>)) {
        let Some(Value::Object(place)) = self.schema.pointer_mut(pointer) else {
            return;
        };
        let mut node = Node {
            pointer,
            members: std::mem::take(place),
            source: &self.source,
            unchecked: &mut self.unchecked,
            required: &mut self.required,
        };
        change(&mut node);
        let members = node.members;
        if let Some(place) = self.schema.pointer_mut(pointer) {
            *place = members.into();
        }
    }

    /// Makes an object require a member, which narrows it.
    fn require(&mut self, pointer: &str, name: &str) {
        self.edit(pointer, |node| {
            let required = node
                .members
                .entry("required")
                .or_insert_with(|| Value::Array(Vec::new()));
            if let Some(names) = required.as_array_mut()
                && !names.iter().any(|one| one == name)
            {
                names.push(name.into());
            }
        });
    }
}

/// Keywords whose value has schemas by their names.
const NAMED: [&str; 2] = ["properties", "patternProperties"];
/// Keywords whose value is a schema, or an array of them.
const SCHEMAS: [&str; 7] = [
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "items",
    "oneOf",
    "prefixItems",
];

/// Keywords with targets of references.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

fn named(members: &Map<String, Value>, pointer: &str, keywords: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for keyword in keywords {
        let schemas = members.get(*keyword).and_then(Value::as_object);
        for name in schemas.into_iter().flat_map(Map::keys) {
            found.push(format!("{pointer}/{keyword}{}", part(name)));
        }
    }
    found
}

/// Returns pointers to the schemas directly within one, without targets of references.
fn children(members: &Map<String, Value>, pointer: &str) -> Vec<String> {
    let mut children = named(members, pointer, &NAMED);
    for keyword in SCHEMAS {
        match members.get(keyword) {
            Some(Value::Array(each)) => {
                let at = |at| format!("{pointer}/{keyword}/{at}");
                children.extend((0..each.len()).map(at));
            }
            Some(Value::Object(_)) => children.push(format!("{pointer}/{keyword}")),
            _ => {}
        }
    }
    children
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the schema that `prepare` makes, and the pointers of the listed keywords.
    fn prepared(schema: Value) -> (Value, Vec<String>) {
        let Prepared { schema, unchecked } = prepare(schema);
        let pointers = unchecked.into_iter().map(|one| one.pointer).collect();
        (schema, pointers)
    }

    #[test]
    fn keywords_are_rewritten_or_removed_and_listed() {
        let lost = |schema: Value, pointers: &[&str]| {
            let (after, lost) = prepared(schema.clone());
            assert_eq!(lost, pointers, "{schema} became {after}");
        };
        lost(
            json!({"type": "string", "format": "path", "maxLength": 5}),
            &[],
        );
        lost(
            json!({"items": {"uniqueItems": true}}),
            &["/items/uniqueItems"],
        );
        lost(json!({"uniqueItems": true, "maxItems": 1}), &[]);
        lost(
            json!({"if": {"format": "x", "uniqueItems": true}, "then": {"not": {"type": "null"}}, "else": false}),
            &["/else", "/if", "/then"],
        );
        lost(
            json!({"then": {}, "minContains": 1, "uniqueItems": false, "deprecated": true}),
            &[],
        );
        lost(json!({"not": {"required": ["a"]}}), &["/not"]);
        lost(
            json!({"properties": {"a/b": {"const": 9_007_199_254_740_993_u64}}}),
            &["/properties/a~1b/const"],
        );
        // A definition counts if a reference leads to it.
        lost(
            json!({"$defs": {"a": {"contains": {}}, "b": {"contains": {}}}, "items": {"$ref": "#/$defs/b"}}),
            &["/$defs/b/contains"],
        );
        lost(
            json!({"$defs": {"a": {"$anchor": "a", "contains": {}}}, "items": {"$ref": "#a"}}),
            &["/$defs/a/contains"],
        );
        lost(json!({"not": {"not": {}}}), &[]);
        lost(json!({"unevaluatedProperties": false}), &[]);
        lost(
            json!({"items": [{}], "unevaluatedItems": false}),
            &["/unevaluatedItems"],
        );
        lost(
            json!({"allOf": [{}], "unevaluatedProperties": false}),
            &["/unevaluatedProperties"],
        );
        lost(
            json!({"type": "object", "minProperties": 2}),
            &["/minProperties"],
        );
        lost(json!({"required": ["a"], "minProperties": 2}), &[]);
    }

    #[test]
    fn property_names_become_members_and_an_impossible_object_false() {
        let after = |schema| prepared(schema).0;
        assert_eq!(after(json!({"not": {}})), json!(false));
        assert_eq!(
            after(
                json!({"type": "object", "propertyNames": {"enum": ["a", "b"]}, "additionalProperties": {"type": "null"}})
            ),
            json!({"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}}, "additionalProperties": false})
        );
        assert_eq!(
            after(json!({"type": "object", "propertyNames": {"pattern": "^k"}})),
            json!({"type": "object", "patternProperties": {"^k": true}, "additionalProperties": false})
        );
        assert_eq!(
            after(json!({"propertyNames": {"type": "string"}})),
            json!({})
        );
    }

    #[test]
    fn references_may_be_encoded() {
        assert_eq!(target("#/a%20b/%C3%A9").as_deref(), Some("/a b/\u{e9}"));
        for reference in ["#/%", "#/%zz", "#/%ff", "#a", "a"] {
            assert_eq!(target(reference), None);
        }
    }

    #[test]
    fn a_discriminator_makes_alternatives_exclusive() {
        let branch = |name: &str| json!({"type": "object", "properties": {"k": {"const": name, "default": name}, "x": {"type": "integer"}}});
        let schema = |a: &str, b: &str| json!({"oneOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}], "$defs": {"A": branch(a), "B": branch(b)}});
        let (after, lost) = prepared(schema("a", "b"));
        assert!(lost.is_empty(), "{lost:?}");
        assert_eq!(after.pointer("/$defs/A/required"), Some(&json!(["k"])));
        let (_, lost) = prepared(schema("a", "a"));
        assert_eq!(lost, ["/oneOf"]);
        let (_, lost) = prepared(json!({"oneOf": [{"type": "string"}, {"type": "integer"}]}));
        assert!(lost.is_empty());
        let required =
            json!({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
        let (after, lost) = prepared(required);
        assert!(lost.is_empty());
        assert_eq!(
            after["oneOf"][1],
            json!({"required": ["b"], "properties": {"a": false}})
        );
        let (_, lost) = prepared(json!({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}));
        assert_eq!(lost, ["/oneOf"]);
        let (_, lost) = prepared(json!({"oneOf": [{"type": "number"}, {"type": "integer"}]}));
        assert_eq!(lost, ["/oneOf"]);
    }
}
