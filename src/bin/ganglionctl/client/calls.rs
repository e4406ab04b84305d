//! Tool calls in the form that frames have.

use serde_json::{Value, json};

/// Writes a line for each call: its name, and its arguments as JSON.
pub(crate) fn lines(calls: &Value) -> String {
    let each = calls.as_array().into_iter().flatten();
    let lines = each.map(|call| {
        let called = json!({"id": call["id"], "name": name(call), "arguments": arguments(call)});
        format!("{called}\n")
    });
    lines.collect()
}

/// Returns the name of the tool.
pub(crate) fn name(call: &Value) -> &str {
    call["function"]["name"].as_str().unwrap_or_default()
}

/// Returns the arguments, a JSON object.
pub(crate) fn arguments(call: &Value) -> Value {
    let text = call["function"]["arguments"].as_str().unwrap_or_default();
    serde_json::from_str(text).unwrap_or_default()
}
