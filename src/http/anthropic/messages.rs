//! The messages of a request, as `front` takes them. A message of the user with results of tools becomes several, and
//! consecutive messages of one role become a turn.

use serde_json::value::RawValue;

use super::super::error::Error;
use super::super::raw::{self, Kind};
use super::super::request::reader::Reader;
use super::super::request::table::Object;
use super::blocks::{self, Block};
use super::fields::TABLE;
use super::turns;
use crate::engine::Role;
use crate::front::{
    GivenMessages, MESSAGES, MessageFields, PARTS, Part, PlacedImage, TEXT_BYTES, shortened,
};

/// Reads the fields `system` and `messages`.
///
/// # Errors
/// An error names the message and its field.
pub(super) fn messages(system: Option<&RawValue>, said: &RawValue) -> Result<GivenMessages, Error> {
    let mut room = TEXT_BYTES;
    let mut given = GivenMessages::default();
    if let Some(raw) = system {
        let mut reader = Reader::new(&TABLE, "system".to_owned(), &mut room);
        let text = blocks::texts(&mut reader, raw)?;
        if !text.is_empty() {
            let fields = MessageFields {
                content: Some(text),
                ..MessageFields::default()
            };
            push(&mut given, &reader, Role::System, fields, Place::default())?;
        }
    }
    let each = raw::array(said, MESSAGES).map_err(|why| {
        Error::invalid(Some("messages"), format!("messages: {why}")).with_code("invalid_type")
    })?;
    for (number, raw) in each.into_iter().enumerate() {
        let mut reader = Reader::new(&TABLE, format!("messages[{number}]"), &mut room);
        message(&mut given, &mut reader, raw, number)?;
    }
    Ok(given)
}

/// The place of a message's first part in the request, for errors of images.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    message: usize,
    part: usize,
    /// Whether all parts have that place.
    is_one: bool,
}

impl Place {
    fn of(self, image: &PlacedImage) -> (usize, usize) {
        let (_, part) = image.given_as;
        let part = if self.is_one { 0 } else { part };
        (self.message, self.part + part)
    }
}

/// Adds a message with the images of its parts.
fn push(
    given: &mut GivenMessages,
    reader: &Reader<'_>,
    role: Role,
    fields: MessageFields,
    place: Place,
) -> Result<(), Error> {
    let built = fields.message(role, given.messages.len());
    let (message, mut images) = built.map_err(|why| reader.wrong("", &why))?;
    for image in &mut images {
        image.given_as = place.of(image);
    }
    let pushed = turns::push(given, message, images);
    pushed.map_err(|why| reader.wrong("", &why))
}

/// Reads one message.
fn message(
    given: &mut GivenMessages,
    reader: &mut Reader<'_>,
    raw: &RawValue,
    number: usize,
) -> Result<(), Error> {
    let fields = reader.given(Object::Message, raw)?;
    let Some(role) = fields.get("role") else {
        return Err(reader.wrong("role", "it is missing; give \"user\", for example"));
    };
    let role = raw::text(role).map_err(|why| reader.wrong("role", &why))?;
    let role = match &*role {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => Role::System,
        other => {
            let other = shortened(other);
            let why = format!("it is {other:?}; allowed is \"user\", \"assistant\" or \"system\"");
            return Err(reader.wrong("role", &why));
        }
    };
    let Some(content) = fields.get("content") else {
        return Err(reader.wrong("content", "it is missing"));
    };
    let blocks = read_blocks(reader, content)?;
    let place = |part| Place {
        message: number,
        part,
        is_one: false,
    };
    if role == Role::Assistant {
        let fields = of_assistant(reader, blocks)?;
        return push(given, reader, role, fields, place(0));
    }
    let mut parts = Vec::new();
    let mut begins = 0;
    let count = blocks.len();
    for (at, block) in blocks.into_iter().enumerate() {
        match block {
            Block::Part(part) => {
                if parts.is_empty() {
                    begins = at;
                }
                parts.push(part);
            }
            Block::Result { id, parts: output } if role == Role::User => {
                let said = std::mem::take(&mut parts);
                if !said.is_empty() {
                    push(given, reader, role, of_parts(said), place(begins))?;
                }
                let fields = MessageFields {
                    call_id: Some(id),
                    ..of_parts(output)
                };
                let place = Place {
                    is_one: true,
                    ..place(at)
                };
                push(given, reader, Role::Tool, fields, place)?;
            }
            other => return Err(misplaced(reader, at, &other, role)),
        }
    }
    if !parts.is_empty() || count == 0 {
        push(given, reader, role, of_parts(parts), place(begins))?;
    }
    Ok(())
}

/// Returns the blocks of a message's content; a text is one block.
fn read_blocks(reader: &mut Reader<'_>, content: &RawValue) -> Result<Vec<Block>, Error> {
    if raw::kind(content) != Kind::Array {
        let text = reader.text("content", content)?;
        return Ok(vec![Block::Part(Part::Text(text))]);
    }
    let each = raw::array(content, PARTS).map_err(|why| reader.wrong("content", &why))?;
    let mut blocks = Vec::new();
    for (number, raw) in each.into_iter().enumerate() {
        blocks.push(blocks::block(reader, &format!("content[{number}]"), raw)?);
    }
    Ok(blocks)
}

fn of_parts(parts: Vec<Part>) -> MessageFields {
    MessageFields {
        parts: Some(parts),
        ..MessageFields::default()
    }
}

/// Returns the fields of a message by the assistant.
fn of_assistant(reader: &Reader<'_>, blocks: Vec<Block>) -> Result<MessageFields, Error> {
    let (mut thoughts, mut parts, mut calls) = (String::new(), Vec::new(), Vec::new());
    for (at, block) in blocks.into_iter().enumerate() {
        match block {
            Block::Part(part @ Part::Text(_)) => parts.push(part),
            Block::Thoughts(text) => thoughts += &text,
            Block::Call(call) => calls.push(call),
            other => return Err(misplaced(reader, at, &other, Role::Assistant)),
        }
    }
    Ok(MessageFields {
        reasoning: Some(thoughts).filter(|thoughts| !thoughts.is_empty()),
        calls: (!calls.is_empty()).then(|| format!("[{}]", calls.join(","))),
        ..of_parts(parts)
    })
}

/// Returns the error of a block that messages of this role do not have.
fn misplaced(reader: &Reader<'_>, at: usize, block: &Block, role: Role) -> Error {
    let (kind, role) = (block.kind(), role.name());
    let why = format!("a message by {role:?} has no block of the type {kind:?}");
    reader.wrong(&format!("content[{at}]"), &why)
}
