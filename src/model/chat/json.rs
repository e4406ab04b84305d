//! JSON as Python's `json.dumps(value, ensure_ascii=False)` writes it: models were trained on its spaces.

use std::io;

use minijinja::Value;
use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::{Formatter, PrettyFormatter};

/// One line, or with each level indented by `indent` spaces.
pub(super) fn write(value: &Value, indent: Option<usize>) -> serde_json::Result<String> {
    let mut text = Vec::new();
    if let Some(indent) = indent {
        let indent = " ".repeat(indent.min(16));
        let formatter = PrettyFormatter::with_indent(indent.as_bytes());
        value.serialize(&mut Serializer::with_formatter(&mut text, formatter))?;
    } else {
        value.serialize(&mut Serializer::with_formatter(&mut text, OneLine))?;
    }
    String::from_utf8(text).map_err(serde::ser::Error::custom)
}

struct OneLine;

impl Formatter for OneLine {
    fn begin_array_value<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        writer.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_value<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}
