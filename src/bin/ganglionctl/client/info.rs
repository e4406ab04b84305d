//! Dictionaries of the daemon, as JSON and as tables for people.

use ganglion::bus::proxy::Info;
use serde_json::{Map, Value};
use zbus::Variant;

pub(crate) type Object = Map<String, Value>;

/// Names and values in two columns; what is empty is left out.
pub(crate) fn table(rows: impl IntoIterator<Item = (String, String)>) -> String {
    let rows: Vec<_> = rows
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .collect();
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.iter().fold(String::new(), |table, (name, value)| {
        table + &format!("{name:width$}  {value}\n")
    })
}

/// Text as it is, anything else as in JSON.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

pub(crate) fn megabytes(bytes: u64) -> String {
    #[allow(clippy::cast_precision_loss)] // shown to a tenth of a megabyte
    let megabytes = bytes as f64 / 1e6;
    format!("{megabytes:.1} MB")
}

/// In the order of its keys.
pub(crate) fn object(info: &Info) -> Object {
    let mut entries: Vec<_> = info.iter().collect();
    entries.sort_by_key(|(key, _)| *key);
    entries
        .into_iter()
        .map(|(key, value)| (key.clone(), json(value)))
        .collect()
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
