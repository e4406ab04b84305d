//! Calls of tools, as frames have them.

use serde_json::{Value, json};

/// A line for each: its name, and its arguments as JSON.
pub(crate) fn lines(calls: &Value) -> String {
    let each = calls.as_array().into_iter().flatten();
    let lines = each.map(|call| {
        let called = json!({"id": call["id"], "name": name(call), "arguments": arguments(call)});
        format!("{called}\n")
    });
    lines.collect()
}

/// The name of the tool.
pub(crate) fn name(call: &Value) -> &str {
    call["function"]["name"].as_str().unwrap_or_default()
}

/// The arguments, a JSON object.
pub(crate) fn arguments(call: &Value) -> Value {
    let text = call["function"]["arguments"].as_str().unwrap_or_default();
    serde_json::from_str(text).unwrap_or_default()
}
