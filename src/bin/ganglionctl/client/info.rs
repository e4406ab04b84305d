//! Dictionaries of the daemon, as JSON and as tables for people.

use std::collections::BTreeMap;

use ganglion::bus::proxy::Info;
use serde_json::{Value, json};
use zbus::Variant;

/// Text as it is, anything else as in JSON.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

/// A text; empty if there is none.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(crate) fn megabytes(bytes: u64) -> String {
    #[allow(clippy::cast_precision_loss)] // shown to a tenth of a megabyte
    let megabytes = bytes as f64 / 1e6;
    format!("{megabytes:.1} MB")
}

/// A dictionary of the daemon's as JSON, in the order of its keys.
pub(crate) fn object(info: &Info) -> Value {
    let entries: BTreeMap<_, _> = info.iter().map(|(key, value)| (key, json(value))).collect();
    json!(entries)
}

/// Numbers, strings, lists and dictionaries of them; what D-Bus has beyond JSON is shown as text.
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
