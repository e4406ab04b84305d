//! Conversions of messages between the daemon's form and JSON.

use std::collections::HashMap;

use ganglion::bus::proxy::Info;
use serde_json::{Map, Value};
use zbus::Variant;

use super::info::{object, plain};

/// A role, and the fields of a message.
type Given = (String, HashMap<String, Variant<'static>>);

/// Converts a message of the daemon to a JSON object with its role.
pub(crate) fn to_json((role, fields): (String, Info)) -> Value {
    let mut message = object(&fields);
    message["role"] = role.into();
    message
}

/// Converts messages to the form that `OpenSession` takes. Members without a D-Bus type are passed as JSON text.
pub(super) fn to_bus(messages: &[Value]) -> Vec<Given> {
    let empty = Map::new();
    let each = messages.iter().map(|message| {
        let role = message["role"].as_str().unwrap_or_default().to_owned();
        let fields = message.as_object().unwrap_or(&empty).iter();
        let fields = fields.filter(|(name, value)| *name != "role" && !value.is_null());
        let fields = fields.map(|(name, value)| {
            let value = match value {
                Value::Bool(value) => (*value).into(),
                value => plain(value).into(),
            };
            (name.clone(), value)
        });
        (role, fields.collect())
    });
    each.collect()
}
