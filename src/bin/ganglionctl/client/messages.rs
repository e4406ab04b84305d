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

/// What stands for an image that the daemon did not return, as in the daemon itself.
const LOST: &str = "[image no longer available]";

/// Returns the content of a message with a text for each of its images.
fn content(message: &Value) -> String {
    let mut content = message["content"].as_str().unwrap_or_default().to_owned();
    let places = message["images"].as_array().into_iter().flatten();
    // From the last on, so that the earlier places stay.
    for at in places.rev().filter_map(Value::as_u64) {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        if content.is_char_boundary(at) {
            content.insert_str(at, LOST);
        }
    }
    content
}

/// Converts messages to the form that `OpenSession` takes. Members without a D-Bus type are passed as JSON text. A text stands
/// for each image.
pub(super) fn to_bus(messages: &[Value]) -> Vec<Given> {
    let empty = Map::new();
    let texts = messages.iter().map(|message| {
        let mut message = message.clone();
        if message["images"].is_array() {
            message["content"] = content(&message).into();
        }
        if let Some(fields) = message.as_object_mut() {
            fields.retain(|name, _| !["images", "lost_images"].contains(&name.as_str()));
        }
        message
    });
    let texts: Vec<_> = texts.collect();
    let each = texts.iter().map(|message| {
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
