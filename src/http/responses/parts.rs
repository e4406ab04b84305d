//! The content of an item: a text, or an array of parts.

use serde_json::value::RawValue;

use super::super::error::Error;
use super::super::raw::{self, Kind};
use super::super::request::images::image;
use super::super::request::reader::Reader;
use super::super::request::table::Object;
use crate::front::{MessageFields, PARTS, Part};

/// The parts that an item may have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Parts {
    /// Those of the user, of the system and of results.
    Input,
    /// Those of the assistant.
    Output,
}

impl Parts {
    const fn kinds(self) -> &'static [&'static str] {
        match self {
            Self::Input => &["input_text", "input_image"],
            // Programs write it for the assistant too.
            Self::Output => &["output_text", "input_text"],
        }
    }

    const fn form(self) -> &'static str {
        match self {
            Self::Input => {
                "a part is {\"type\": \"input_text\", \"text\": ...} or {\"type\": \"input_image\", \"image_url\": ...}"
            }
            Self::Output => {
                "a part of the assistant's is {\"type\": \"output_text\", \"text\": ...}"
            }
        }
    }
}

/// Reads the content in the field `name` into the fields of a message.
///
/// # Errors
/// An error names the part and its field.
pub(super) fn read(
    reader: &mut Reader<'_>,
    (name, raw): (&str, &RawValue),
    parts: Parts,
    fields: &mut MessageFields,
) -> Result<(), Error> {
    if raw::kind(raw) != Kind::Array {
        fields.content = Some(reader.text(name, raw)?);
        return Ok(());
    }
    let each = raw::array(raw, PARTS).map_err(|why| reader.wrong(name, &why))?;
    let mut read = Vec::new();
    for (number, raw) in each.into_iter().enumerate() {
        let at = format!("{name}[{number}]");
        let kind = reader.kind(&at, raw, parts.kinds(), parts.form())?;
        read.push(part(&mut reader.within(&at), raw, &kind)?);
    }
    fields.parts = Some(read);
    Ok(())
}

fn part(reader: &mut Reader<'_>, raw: &RawValue, kind: &str) -> Result<Part, Error> {
    let object = match kind {
        "input_text" => Object::Text,
        "output_text" => Object::OutputText,
        _ => Object::Image,
    };
    let given = reader.given(object, raw)?;
    if object != Object::Image {
        return Ok(Part::Text(reader.needed(&given, "text")?));
    }
    let Some(url) = given.get("image_url") else {
        return Err(reader.wrong("image_url", "it is missing"));
    };
    // An image does not count as text.
    let url = raw::text(url).map_err(|why| reader.wrong("image_url", &why))?;
    let image = image(&url).map_err(|why| reader.wrong("image_url", &why))?;
    Ok(Part::Image(image))
}

/// Returns the text of thoughts.
///
/// # Errors
/// An error names the part and its field.
pub(super) fn thoughts(reader: &mut Reader<'_>, raw: &RawValue) -> Result<String, Error> {
    const FORM: &str = "a part of thoughts is {\"type\": \"reasoning_text\", \"text\": ...}";
    let each = raw::array(raw, PARTS).map_err(|why| reader.wrong("content", &why))?;
    let mut thoughts = String::new();
    for (number, raw) in each.into_iter().enumerate() {
        let at = format!("content[{number}]");
        reader.kind(&at, raw, &["reasoning_text"], FORM)?;
        let members = raw::object(raw.get()).map_err(|why| reader.wrong(&at, &why))?;
        let text = members.iter().find(|(name, _)| name == "text");
        let Some((_, text)) = text else {
            return Err(reader.wrong(&at, &format!("it has no \"text\"; {FORM}")));
        };
        thoughts += &reader.text(&format!("{at}.text"), text)?;
    }
    Ok(thoughts)
}
