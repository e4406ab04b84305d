//! Removes the keywords from a schema that the compiler refuses.

use serde_json::{Value, json};

use super::node::Unchecked;
use super::pointer::part;

/// Keywords that are removed together: without the others, the last would narrow what is allowed. The most likely come first.
const REMOVED: [&[&str]; 18] = [
    &["pattern"],
    &["format"],
    &["multipleOf"],
    &["patternProperties", "additionalProperties"],
    &["minProperties"],
    &["maxProperties"],
    &["minLength", "maxLength"],
    &["minItems", "maxItems"],
    &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"],
    &["const"],
    &["enum"],
    &["$ref"],
    &["allOf"],
    &["anyOf"],
    &["oneOf"],
    &["type"],
    &["prefixItems", "items", "additionalItems"],
    &[
        "properties",
        "patternProperties",
        "additionalProperties",
        "required",
    ],
];

/// Loosens the schema at `pointer`, which does not compile. `compiles` tests a replacement of it. Returns the removed
/// keywords.
pub(in crate::guide) fn loosen(
    whole: &mut Value,
    pointer: &str,
    why: &str,
    compiles: impl Fn(&Value) -> bool,
) -> Vec<Unchecked> {
    let unchecked = |pointer: String| Unchecked {
        pointer,
        why: why.to_owned(),
    };
    let Some(place) = whole.pointer_mut(pointer) else {
        return Vec::new();
    };
    if let Value::Object(members) = place {
        for keywords in REMOVED {
            let has = |keyword: &&&str| members.contains_key(**keyword);
            let found: Vec<_> = keywords.iter().filter(has).copied().collect();
            if found.is_empty() {
                continue;
            }
            let mut less = members.clone();
            less.retain(|keyword, _| !found.contains(&keyword.as_str()));
            if compiles(&Value::Object(less.clone())) {
                *members = less;
                return found
                    .into_iter()
                    .map(|keyword| unchecked(format!("{pointer}{}", part(keyword))))
                    .collect();
            }
        }
    }
    // Arguments of a tool stay an object.
    let is_object = place.get("type").is_some_and(|kind| kind == "object");
    *place = if pointer.is_empty() && is_object {
        json!({"type": "object"})
    } else {
        json!({})
    };
    vec![unchecked(pointer.to_owned())]
}
