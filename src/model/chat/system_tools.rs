//! Tools for templates that read them from the system message, such as Phi-4-mini's.

use std::io;

use serde::Serialize as _;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

/// The system message of a conversation without one: that of Phi-4-mini's model card.
pub(super) const SYSTEM: &str = "You are a helpful assistant with some tools.";

/// Whether a template reads tools from messages alone, and not from the variable `tools`.
pub(super) fn reads(source: &str) -> bool {
    const FORMS: [&str; 4] = [
        "message['tools']",
        "message[\"tools\"]",
        "message.tools",
        "'tools' in message",
    ];
    let other = FORMS
        .iter()
        .fold(source.to_owned(), |rest, form| rest.replace(form, ""));
    other.len() < source.len() && !other.contains("tools")
}

/// Writes the functions of some tools as JSON, with the white space of Python's json.dumps.
pub(super) fn text(tools: &Value) -> String {
    let each = tools.as_array().into_iter().flatten();
    let functions: Value = each
        .map(|tool| tool.get("function").unwrap_or(tool).clone())
        .collect();
    let mut text = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut text, Spaced);
    // Writing to memory does not fail.
    let _ = functions.serialize(&mut serializer);
    String::from_utf8(text).unwrap_or_default()
}

/// Writes a space after each comma and colon.
struct Spaced;

impl Spaced {
    fn separate<W: io::Write + ?Sized>(writer: &mut W, first: bool) -> io::Result<()> {
        if first {
            Ok(())
        } else {
            writer.write_all(b", ")
        }
    }
}

impl Formatter for Spaced {
    fn begin_array_value<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        Self::separate(writer, first)
    }

    fn begin_object_key<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        Self::separate(writer, first)
    }

    fn begin_object_value<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn functions_are_written_with_the_white_space_of_python() {
        let tools = json!([{"type": "function", "function": {"name": "go", "parameters": {"required": ["a", "b"]}}}]);
        assert_eq!(
            text(&tools),
            r#"[{"name": "go", "parameters": {"required": ["a", "b"]}}]"#
        );
    }
}
