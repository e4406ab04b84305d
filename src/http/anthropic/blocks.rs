//! The blocks of a message's content.

use serde_json::value::RawValue;

use super::super::error::Error;
use super::super::raw::{self, Kind};
use super::super::request::images::image_of;
use super::super::request::reader::Reader;
use super::super::request::table::Object;
use super::super::request::tools;
use crate::front::{PARTS, Part};

/// A block.
#[derive(Debug)]
pub(super) enum Block {
    /// A text or an image.
    Part(Part),
    Thoughts(String),
    /// A call of a tool, in the form of chat completions.
    Call(String),
    /// The result of a call.
    Result {
        id: String,
        parts: Vec<Part>,
    },
}

const KINDS: [&str; 5] = ["text", "image", "tool_use", "tool_result", "thinking"];
const FORM: &str = "known are text, image, tool_use, tool_result and thinking";
/// The blocks of a result.
const RESULT_KINDS: [&str; 2] = ["text", "image"];
const RESULT_FORM: &str = "a result has text and image";

impl Block {
    /// Returns its type.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Part(Part::Text(_)) => "text",
            Self::Part(Part::Image(_)) => "image",
            Self::Thoughts(_) => "thinking",
            Self::Call(_) => "tool_use",
            Self::Result { .. } => "tool_result",
        }
    }
}

/// Reads the block at the path `at` from the reader's object.
///
/// # Errors
/// An error names the field that is wrong.
pub(super) fn block(reader: &mut Reader<'_>, at: &str, raw: &RawValue) -> Result<Block, Error> {
    let kind = reader.kind(at, raw, &KINDS, FORM)?;
    let reader = &mut reader.within(at);
    Ok(match &*kind {
        "thinking" => {
            let given = reader.given(Object::Thoughts, raw)?;
            Block::Thoughts(reader.needed(&given, "thinking")?)
        }
        "tool_use" => {
            let given = reader.given(Object::Call, raw)?;
            let (id, name) = (reader.needed(&given, "id")?, reader.needed(&given, "name")?);
            let Some(input) = given.get("input") else {
                return Err(reader.wrong("input", "it is missing; give an object"));
            };
            if raw::kind(input) != Kind::Object {
                let kind = raw::kind(input).name();
                return Err(reader.wrong("input", &format!("it is {kind}; it must be an object")));
            }
            reader.take("input", input.get().len())?;
            Block::Call(tools::call(&id, &name, input.get()))
        }
        "tool_result" => {
            let given = reader.given(Object::CallResult, raw)?;
            Block::Result {
                id: reader.needed(&given, "tool_use_id")?,
                parts: match given.get("content") {
                    Some(raw) => output(reader, raw)?,
                    None => vec![Part::Text(String::new())],
                },
            }
        }
        kind => Block::Part(part(reader, kind, raw)?),
    })
}

/// Reads the content of a result.
fn output(reader: &mut Reader<'_>, raw: &RawValue) -> Result<Vec<Part>, Error> {
    if raw::kind(raw) != Kind::Array {
        return Ok(vec![Part::Text(reader.text("content", raw)?)]);
    }
    let each = raw::array(raw, PARTS).map_err(|why| reader.wrong("content", &why))?;
    let mut parts = Vec::new();
    for (number, raw) in each.into_iter().enumerate() {
        let at = format!("content[{number}]");
        let kind = reader.kind(&at, raw, &RESULT_KINDS, RESULT_FORM)?;
        parts.push(part(&mut reader.within(&at), &kind, raw)?);
    }
    Ok(parts)
}

/// Reads a text or an image.
fn part(reader: &mut Reader<'_>, kind: &str, raw: &RawValue) -> Result<Part, Error> {
    if kind == "text" {
        let given = reader.given(Object::Text, raw)?;
        return Ok(Part::Text(reader.needed(&given, "text")?));
    }
    let given = reader.given(Object::Image, raw)?;
    let Some(source) = given.get("source") else {
        return Err(reader.wrong("source", "it is missing"));
    };
    let form = "an image is {\"type\": \"base64\", \"media_type\": ..., \"data\": ...}; the daemon has no network, and no files";
    reader.kind("source", source, &["base64"], form)?;
    let mut reader = reader.within("source");
    let given = reader.given(Object::Source, source)?;
    let kind = reader.needed(&given, "media_type")?;
    let Some(data) = given.get("data") else {
        return Err(reader.wrong("data", "it is missing"));
    };
    // An image does not count as text.
    let data = raw::text(data).map_err(|why| reader.wrong("data", &why))?;
    let image = image_of(&kind, &data).map_err(|why| reader.wrong("", &why))?;
    Ok(Part::Image(image))
}

/// Reads a text, or an array of text blocks, whose path is the reader's.
///
/// # Errors
/// An error names the block and its field.
pub(super) fn texts(reader: &mut Reader<'_>, raw: &RawValue) -> Result<String, Error> {
    if raw::kind(raw) != Kind::Array {
        return reader.text("", raw);
    }
    let each = raw::array(raw, PARTS).map_err(|why| reader.wrong("", &why))?;
    let mut text = String::new();
    for (number, raw) in each.into_iter().enumerate() {
        let reader = &mut reader.element(number);
        reader.kind(
            "",
            raw,
            &["text"],
            "a block is {\"type\": \"text\", \"text\": ...}",
        )?;
        let given = reader.given(Object::Text, raw)?;
        text += &reader.needed(&given, "text")?;
    }
    Ok(text)
}
