//! The white space of JSON that a schema describes.

use serde_json::{Value, json};

/// Restricts white space to that of one line, as models write it. Free white space would cost tokens, and a small model
/// may never end it. A schema can override this.
pub(in crate::guide) fn spaced(mut schema: Value) -> Value {
    if schema == Value::Bool(true) {
        schema = json!({});
    }
    if let Some(schema) = schema.as_object_mut()
        && !schema.contains_key("x-guidance")
    {
        let spacing = json!({
            "whitespace_flexible": false,
            "item_separator": ", ",
            "key_separator": ": ",
        });
        schema.insert("x-guidance".into(), spacing);
    }
    // Overlapping alternatives are refused or listed when the schema is prepared.
    if let Some(guidance) = schema.get_mut("x-guidance").and_then(Value::as_object_mut) {
        guidance.insert("coerce_one_of".into(), true.into());
    }
    schema
}
