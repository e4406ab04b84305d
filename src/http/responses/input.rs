//! The input of a request, as `front` takes messages: a text, or items, of which several may be one message.

use serde_json::value::RawValue;

use super::super::error::Error;
use super::super::raw::{self, Kind};
use super::super::request::reader::Reader;
use super::super::request::table::Object;
use super::fields::TABLE;
use super::parts::{self, Parts};
use super::turn::Turn;
use crate::engine::Role;
use crate::front::{GivenMessages, MESSAGES, MessageFields, Part, TEXT_BYTES, role, shortened};

/// The types of items.
const KINDS: [&str; 4] = [
    "message",
    "function_call",
    "function_call_output",
    "reasoning",
];

/// Reads the fields `instructions` and `input`.
///
/// # Errors
/// An error names the item and its field.
pub(super) fn messages(
    instructions: Option<&RawValue>,
    input: &RawValue,
) -> Result<GivenMessages, Error> {
    let mut room = TEXT_BYTES;
    let mut conversation = Conversation::default();
    if let Some(raw) = instructions {
        let text = plain("instructions", raw, &mut room)?;
        let mut reader = Reader::new(&TABLE, "instructions".to_owned(), &mut room);
        conversation.push(&mut reader, Role::System, of_text(text), 0)?;
    }
    if raw::kind(input) == Kind::Text {
        let text = plain("input", input, &mut room)?;
        let mut reader = Reader::new(&TABLE, "input".to_owned(), &mut room);
        conversation.push(&mut reader, Role::User, of_text(text), 0)?;
        return Ok(conversation.given);
    }
    let items = raw::array(input, MESSAGES).map_err(|why| {
        let why = format!("input: {why}, or a text");
        Error::invalid(Some("input"), why).with_code("invalid_type")
    })?;
    for (number, raw) in items.into_iter().enumerate() {
        let mut reader = Reader::new(&TABLE, format!("input[{number}]"), &mut room);
        conversation.item(&mut reader, raw, number)?;
    }
    let mut reader = Reader::new(&TABLE, "input".to_owned(), &mut room);
    conversation.end_turn(&mut reader)?;
    Ok(conversation.given)
}

/// Returns a text outside of any item.
fn plain(field: &str, raw: &RawValue, room: &mut usize) -> Result<String, Error> {
    let wrong = |why: &str| {
        let why = format!("{field}: {why}");
        Error::invalid(Some(field), why).with_code("invalid_value")
    };
    let text = raw::text(raw).map_err(|why| wrong(&why))?.into_owned();
    let left = room.checked_sub(text.len());
    *room =
        left.ok_or_else(|| wrong(&format!("it has more than {TEXT_BYTES} bytes; shorten it")))?;
    Ok(text)
}

fn of_text(text: String) -> MessageFields {
    MessageFields {
        content: Some(text),
        ..MessageFields::default()
    }
}

/// The messages so far, and the turn of the assistant that the next item may belong to.
#[derive(Default)]
struct Conversation {
    given: GivenMessages,
    turn: Turn,
}

impl Conversation {
    fn item(&mut self, reader: &mut Reader<'_>, raw: &RawValue, at: usize) -> Result<(), Error> {
        let kind = reader.maybe_kind("", raw)?;
        match kind.as_deref().unwrap_or("message") {
            "message" => self.message(reader, raw, at),
            "function_call" => {
                let given = reader.given(Object::Call, raw)?;
                let id = reader.needed(&given, "call_id")?;
                let name = reader.needed(&given, "name")?;
                let arguments = reader.needed(&given, "arguments")?;
                self.turn.call(&id, &name, &arguments);
                Ok(())
            }
            "function_call_output" => {
                let given = reader.given(Object::CallResult, raw)?;
                let mut fields = MessageFields {
                    call_id: Some(reader.needed(&given, "call_id")?),
                    ..MessageFields::default()
                };
                let Some(output) = given.get("output") else {
                    return Err(reader.wrong("output", "it is missing"));
                };
                parts::read(reader, ("output", output), Parts::Input, &mut fields)?;
                self.push(reader, Role::Tool, fields, at)
            }
            "reasoning" => {
                let given = reader.given(Object::Thoughts, raw)?;
                let thoughts = match given.get("content") {
                    Some(raw) => parts::thoughts(reader, raw)?,
                    None => String::new(),
                };
                if !self.turn.takes_thoughts() {
                    self.end_turn(reader)?;
                }
                self.turn.think(&thoughts);
                Ok(())
            }
            other => {
                let (other, known) = (shortened(other), KINDS.join(", "));
                Err(reader.wrong("type", &format!("it is {other:?}; known are {known}")))
            }
        }
    }

    fn message(&mut self, reader: &mut Reader<'_>, raw: &RawValue, at: usize) -> Result<(), Error> {
        let given = reader.given(Object::Message, raw)?;
        let Some(name) = given.get("role") else {
            return Err(reader.wrong("role", "it is missing; give \"user\", for example"));
        };
        let name = raw::text(name).map_err(|why| reader.wrong("role", &why))?;
        let role = match &*name {
            "developer" => Role::System,
            "tool" => {
                let why = "it is \"tool\"; give an item of the type \"function_call_output\"";
                return Err(reader.wrong("role", why));
            }
            name => role(name).map_err(|why| reader.wrong("role", &why))?,
        };
        let Some(content) = given.get("content") else {
            return Err(reader.wrong("content", "it is missing"));
        };
        let mut fields = MessageFields::default();
        if role != Role::Assistant {
            parts::read(reader, ("content", content), Parts::Input, &mut fields)?;
            return self.push(reader, role, fields, at);
        }
        parts::read(reader, ("content", content), Parts::Output, &mut fields)?;
        let texts = fields.parts.into_iter().flatten().map(|part| match part {
            Part::Text(text) => text,
            Part::Image(_) => String::new(),
        });
        let text: String = fields.content.into_iter().chain(texts).collect();
        if !self.turn.takes_text() {
            self.end_turn(reader)?;
        }
        self.turn.say(text);
        Ok(())
    }

    /// Adds a message that is not by the assistant. The item `at` has its images.
    fn push(
        &mut self,
        reader: &mut Reader<'_>,
        role: Role,
        fields: MessageFields,
        at: usize,
    ) -> Result<(), Error> {
        self.end_turn(reader)?;
        let number = self.given.messages.len();
        let built = fields.message(role, number);
        let (message, mut images) = built.map_err(|why| reader.wrong("", &why))?;
        for image in &mut images {
            image.given_as.0 = at;
        }
        let pushed = self.given.push(message, images);
        pushed.map_err(|why| reader.wrong("", &why))
    }

    /// Adds the turn of the assistant, if there is one.
    fn end_turn(&mut self, reader: &mut Reader<'_>) -> Result<(), Error> {
        let Some(fields) = std::mem::take(&mut self.turn).fields() else {
            return Ok(());
        };
        let built = fields.message(Role::Assistant, self.given.messages.len());
        let (message, _) = built.map_err(|why| {
            let why = format!("the assistant's items before it: {why}");
            reader.wrong("", &why)
        })?;
        let pushed = self.given.push(message, Vec::new());
        pushed.map_err(|why| reader.wrong("", &why))
    }
}
