//! Reads `a(sa{sv})`: the messages of a conversation, each a role and its fields. What is wrong is found as it is
//! decoded, and what follows it is not kept.

use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use zbus::{Signature, Str, Type};

use super::Error;
use super::argument::{TEXT_BYTES, Text, Value, VariantSeed, shortened};
use super::proxy::Info;
use crate::engine::{Message, Role, Said};

/// Messages of one call; those of the shortest kind fill a context of 40,000 tokens.
const MESSAGES: usize = 8192;

/// The messages, or what is wrong with one of them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Messages(Result<Vec<Message>, String>);

impl Messages {
    /// Their D-Bus type.
    pub(super) const KIND: &str = "a(sa{sv})";

    pub(super) fn read(self) -> Result<Vec<Message>, Error> {
        self.0.map_err(Error::InvalidMessages)
    }
}

/// A text that was sent by itself.
pub(super) fn text(Text(text): Text) -> Result<String, Error> {
    text.map_err(|bytes| too_long("text", bytes))
}

/// What was said before, and what the user says now, if that is anything.
pub(super) fn conversation(
    system: Option<String>,
    mut before: Vec<Message>,
    prompt: Text,
) -> Result<Vec<Message>, Error> {
    let prompt = text(prompt)?;
    if let Some(content) = system {
        let role = Role::System;
        before.insert(0, Message { role, content });
    }
    if !prompt.is_empty() || before.iter().all(|message| message.role == Role::System) {
        before.push(Message {
            role: Role::User,
            content: prompt,
        });
    }
    Ok(before)
}

/// A message of a session as callers give messages, too.
pub(super) fn written(Said { message, partial }: Said) -> (String, Info) {
    let Message { role, content } = message;
    let mut fields = Info::from([("content".to_owned(), Str::from(content).into())]);
    if partial {
        fields.insert("partial".to_owned(), true.into());
    }
    (role.name().to_owned(), fields)
}

/// Of a text that was not kept.
pub(super) fn too_long(what: &str, bytes: usize) -> Error {
    Error::InvalidMessages(format!(
        "the {what} has {bytes} bytes; at most {TEXT_BYTES} are taken in one call"
    ))
}

impl Type for Messages {
    const SIGNATURE: &'static Signature = <Vec<(String, Info)>>::SIGNATURE;
}

impl<'de> Deserialize<'de> for Messages {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut room = TEXT_BYTES;
        deserializer.deserialize_seq(MessagesVisitor { room: &mut room })
    }
}

/// `room` is what may still be kept of texts.
pub(super) struct MessagesVisitor<'a> {
    pub(super) room: &'a mut usize,
}

impl<'de> Visitor<'de> for MessagesVisitor<'_> {
    type Value = Messages;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Messages, A::Error> {
        let mut messages = Vec::new();
        let problem = loop {
            if messages.len() == MESSAGES {
                if elements.next_element::<IgnoredAny>()?.is_none() {
                    return Ok(Messages(Ok(messages)));
                }
                break format!(
                    "there are more than {MESSAGES} messages, which is the most of one call"
                );
            }
            let seed = MessageSeed {
                room: &mut *self.room,
            };
            match elements.next_element_seed(seed)? {
                Some(Ok(message)) => messages.push(message),
                Some(Err(problem)) => break format!("message {}: {problem}", messages.len()),
                None => return Ok(Messages(Ok(messages))),
            }
        };
        IgnoredAny.visit_seq(elements)?;
        Ok(Messages(Err(problem)))
    }
}

/// Reads one message, or what is wrong with it; `room` is what may still be kept of texts.
struct MessageSeed<'a> {
    room: &'a mut usize,
}

impl<'de> DeserializeSeed<'de> for MessageSeed<'_> {
    type Value = Result<Message, String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_tuple(2, self)
    }
}

impl<'de> Visitor<'de> for MessageSeed<'_> {
    type Value = Result<Message, String>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a role and its fields")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
        let missing = || serde::de::Error::custom("a message is cut off");
        let role: &str = parts.next_element()?.ok_or_else(missing)?;
        let Some(known) = Role::from_name(role) else {
            parts.next_element::<IgnoredAny>()?;
            let (role, known) = (shortened(role), Role::ALL.map(Role::name).join(", "));
            return Ok(Err(format!("unknown role {role:?}; known are {known}")));
        };
        let content = parts.next_element_seed(FieldsSeed { room: self.room })?;
        Ok(content.ok_or_else(missing)?.map(|content| Message {
            role: known,
            content,
        }))
    }
}

/// Reads the fields of a message: its content, and whether it is partial.
struct FieldsSeed<'a> {
    room: &'a mut usize,
}

impl<'de> DeserializeSeed<'de> for FieldsSeed<'_> {
    type Value = Result<String, String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for FieldsSeed<'_> {
    type Value = Result<String, String>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the fields of a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut content = None;
        let problem = loop {
            let Some(name) = fields.next_key::<&str>()? else {
                return Ok(content.ok_or_else(|| "it has no \"content\"".to_owned()));
            };
            if name == "partial" {
                // As `Session.Messages` tells it; a model is told nothing of it.
                match fields.next_value_seed(VariantSeed { room: &mut 0 })? {
                    (Value::Bool(_), _) => continue,
                    (_, kind) => {
                        let kind = shortened(&kind);
                        break format!(
                            "its \"partial\" is of type {kind}; it must be true or false (b)"
                        );
                    }
                }
            }
            if name != "content" {
                fields.next_value::<IgnoredAny>()?;
                let name = shortened(name);
                break format!("unknown field {name:?}; known are \"content\" and \"partial\"");
            }
            if content.is_some() {
                fields.next_value::<IgnoredAny>()?;
                break "its \"content\" is there twice".to_owned();
            }
            let seed = VariantSeed {
                room: &mut *self.room,
            };
            content = match fields.next_value_seed(seed)? {
                (Value::Text(text), _) => Some(text),
                (Value::Long(_), _) => {
                    break format!(
                        "up to its \"content\" the text has more than {TEXT_BYTES} bytes, which is the most of one call"
                    );
                }
                (_, kind) => {
                    let kind = shortened(&kind);
                    break format!("its \"content\" is of type {kind}; it must be a text (s)");
                }
            };
        };
        IgnoredAny.visit_map(fields)?;
        Ok(Err(problem))
    }
}
