//! JSON pointers, and the references that lead to them.

use serde_json::Value;

/// Returns the pointer of a reference within the same schema.
pub(in crate::guide) fn target(reference: &str) -> Option<String> {
    let fragment = reference.strip_prefix('#')?;
    let is_pointer = fragment.is_empty() || fragment.starts_with('/');
    is_pointer.then(|| decoded(fragment)).flatten()
}

/// Decodes a fragment of a URI, in which some characters are a percent sign and two digits.
fn decoded(fragment: &str) -> Option<String> {
    let mut parts = fragment.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

/// Follows references from the schema at `pointer`; returns the last schema and the pointer to it.
pub(super) fn resolved<'a>(source: &'a Value, pointer: &str) -> Option<(String, &'a Value)> {
    const MOST: usize = 8;
    let mut pointer = pointer.to_owned();
    for _ in 0..MOST {
        let schema = source.pointer(&pointer)?;
        match schema.get("$ref").and_then(Value::as_str) {
            None => return Some((pointer, schema)),
            Some(reference) => pointer = target(reference)?,
        }
    }
    None
}

/// Returns a name as a part of a pointer.
pub(in crate::guide) fn part(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}
