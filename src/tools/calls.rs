//! Tool calls as JSON text, in the shape of OpenAI's API.

use serde_json::{Value, json};

use crate::model::Call;

/// Parses the calls of an assistant's message. The arguments may be a JSON object or its text.
pub fn read(text: &str) -> Result<Vec<Call>, String> {
    let given: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let array = given.as_array().ok_or("not a JSON array")?;
    let each = array.iter().zip(0..).map(|(one, at)| {
        call(one).ok_or_else(|| {
            format!(
                "number {at} must be {{\"id\", \"type\": \"function\", \"function\": {{\"name\", \"arguments\"}}}} \
                 whose arguments are a JSON object, or the text of one"
            )
        })
    });
    each.collect()
}

fn call(one: &Value) -> Option<Call> {
    let function = one.get("function")?;
    let arguments = match function.get("arguments")? {
        Value::String(text) => serde_json::from_str(text).ok()?,
        other => other.clone(),
    };
    arguments.is_object().then_some(Call {
        id: one.get("id").and_then(Value::as_str)?.to_owned(),
        name: function.get("name").and_then(Value::as_str)?.to_owned(),
        arguments: arguments.to_string(),
    })
}

/// Writes calls in the shape that `read` takes.
#[must_use]
pub fn written(calls: &[Call]) -> Value {
    let each = calls.iter().map(|Call { id, name, arguments }| {
        json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
    });
    each.collect()
}
