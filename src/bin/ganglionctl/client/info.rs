//! The daemon's dictionaries, as JSON and as tables for people.

use std::collections::BTreeMap;

use ganglion::bus::proxy::Info;
use serde_json::{Value, json};
use zbus::Variant;

/// Formats a text as it is, and any other value as JSON.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

/// Returns a text; empty if the value is none.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(crate) fn megabytes(bytes: u64) -> String {
    #[allow(clippy::cast_precision_loss)] // shown to a tenth of a megabyte
    let megabytes = bytes as f64 / 1e6;
    format!("{megabytes:.1} MB")
}

/// Converts a dictionary to JSON, in the order of its keys.
pub(crate) fn object(info: &Info) -> Value {
    let entries: BTreeMap<_, _> = info.iter().map(|(key, value)| (key, json(value))).collect();
    json!(entries)
}

/// Converts numbers, strings, lists and dictionaries; other types of D-Bus are shown as text.
fn json(value: &Variant<'_>) -> Value {
    match value {
        Variant::Bool(value) => (*value).into(),
        Variant::U8(value) => (*value).into(),
        Variant::U16(value) => (*value).into(),
        Variant::U32(value) => (*value).into(),
        Variant::U64(value) => (*value).into(),
        Variant::I16(value) => (*value).into(),
        Variant::I32(value) => (*value).into(),
        Variant::I64(value) => (*value).into(),
        Variant::F64(value) => (*value).into(),
        Variant::Str(value) => value.as_str().into(),
        Variant::Variant(value) => json(value),
        Variant::Array(values) => values.iter().map(json).collect(),
        Variant::Dict(entries) => entries
            .iter()
            .map(|(key, value)| (plain(&json(key)), json(value)))
            .collect(),
        other => other.to_string().into(),
    }
}
