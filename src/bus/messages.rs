//! Reads `a(sa{sv})`: the messages of a conversation, each a role and its fields. What is wrong is found as it is
//! decoded, and what follows it is not kept.

use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use zbus::{Signature, Str, Type};

use super::Error;
use super::argument::{TEXT_BYTES, Text, Value, VariantSeed, shortened};
use super::error::carried;
use super::proxy::Info;
use crate::engine::{self, Message, Role};
use crate::tools;

/// What a message may have, as errors say it.
const FIELDS: &str =
    "\"content\", \"reasoning\", \"tool_calls\", \"tool_call_id\", \"partial\" and \"dropped\"";

/// Messages of one call; those of the shortest kind fill a context of 40,000 tokens.
const MESSAGES: usize = 8192;

/// The messages, or what is wrong with one of them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Messages(Result<Vec<Message>, String>);

impl Messages {
    /// Their D-Bus type.
    pub(super) const KIND: &str = "a(sa{sv})";

    pub(super) fn read(self) -> Result<Vec<Message>, Error> {
        self.0.map_err(|why| Error::InvalidMessages(carried(&why)))
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
        before.insert(0, Message::new(Role::System, content));
    }
    if !prompt.is_empty() || before.iter().all(|message| message.role == Role::System) {
        before.push(Message::new(Role::User, prompt));
    }
    Ok(before)
}

/// A message of a session as callers give messages, too.
pub(super) fn written(said: engine::Said) -> (String, Info) {
    let engine::Said {
        message,
        partial,
        dropped,
    } = said;
    let Message {
        role,
        content,
        reasoning,
        calls,
        call_id,
        spelled: _,
    } = message;
    let mut fields = Info::from([("content".to_owned(), Str::from(content).into())]);
    let calls = (!calls.is_empty()).then(|| tools::written(&calls).to_string());
    let reasoning = Some(reasoning).filter(|reasoning| !reasoning.is_empty());
    let others = [
        ("reasoning", reasoning),
        ("tool_calls", calls),
        ("tool_call_id", call_id),
    ];
    for (name, text) in others {
        if let Some(text) = text {
            fields.insert(name.to_owned(), Str::from(text).into());
        }
    }
    for (name, holds) in [("partial", partial), ("dropped", dropped)] {
        if holds {
            fields.insert(name.to_owned(), true.into());
        }
    }
    (role.name().to_owned(), fields)
}

/// What is answered to a text that was not kept, as it is too long.
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

impl<'de> DeserializeSeed<'de> for MessagesVisitor<'_> {
    type Value = Messages;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Messages, D::Error> {
        deserializer.deserialize_any(self)
    }
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
        let said = parts.next_element_seed(FieldsSeed { room: self.room })?;
        let said = said.ok_or_else(missing)?;
        Ok(said.and_then(|said| message(known, said)))
    }
}

/// What a message may say besides its role, as far as it does.
#[derive(Default)]
struct Said {
    content: Option<String>,
    reasoning: Option<String>,
    calls: Option<String>,
    call_id: Option<String>,
}

/// Reads the fields of a message.
struct FieldsSeed<'a> {
    room: &'a mut usize,
}

impl<'de> DeserializeSeed<'de> for FieldsSeed<'_> {
    type Value = Result<Said, String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for FieldsSeed<'_> {
    type Value = Result<Said, String>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the fields of a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut said = Said::default();
        let problem = loop {
            let Some(name) = fields.next_key::<&str>()? else {
                return Ok(Ok(said));
            };
            let field = match name {
                "content" => &mut said.content,
                "reasoning" => &mut said.reasoning,
                "tool_calls" => &mut said.calls,
                "tool_call_id" => &mut said.call_id,
                // They are as `Session.Messages` and `ReadSession` report them; the model does not see them.
                "partial" | "dropped" => {
                    match fields.next_value_seed(VariantSeed { room: &mut 0 })? {
                        (Value::Bool(_), _) => continue,
                        (_, kind) => {
                            let kind = shortened(&kind);
                            break format!(
                                "its {name:?} is of type {kind}; it must be true or false (b)"
                            );
                        }
                    }
                }
                _ => {
                    fields.next_value::<IgnoredAny>()?;
                    let name = shortened(name);
                    break format!("unknown field {name:?}; known are {FIELDS}");
                }
            };
            let name = name.to_owned();
            if field.is_some() {
                fields.next_value::<IgnoredAny>()?;
                break format!("its {name:?} is there twice");
            }
            let seed = VariantSeed {
                room: &mut *self.room,
            };
            *field = match fields.next_value_seed(seed)? {
                (Value::Text(text), _) => Some(text),
                (Value::Long(_), _) => {
                    break format!(
                        "up to its {name:?} the text has more than {TEXT_BYTES} bytes, which is the most of one call"
                    );
                }
                (_, kind) => {
                    let kind = shortened(&kind);
                    break format!("its {name:?} is of type {kind}; it must be a text (s)");
                }
            };
        };
        IgnoredAny.visit_map(fields)?;
        Ok(Err(problem))
    }
}

/// The message that so much is said in.
fn message(role: Role, said: Said) -> Result<Message, String> {
    let Said {
        content,
        reasoning,
        calls,
        call_id,
    } = said;
    let of = |name: &str, by: Role| {
        let by = by.name();
        Err(format!("only a message by {by:?} has {name:?}"))
    };
    if role != Role::Assistant && (reasoning.is_some() || calls.is_some()) {
        let name = if calls.is_some() {
            "tool_calls"
        } else {
            "reasoning"
        };
        return of(name, Role::Assistant);
    }
    if role != Role::Tool && call_id.is_some() {
        return of("tool_call_id", Role::Tool);
    }
    let calls = match calls {
        Some(text) => tools::read(&text).map_err(|why| format!("its \"tool_calls\": {why}"))?,
        None => Vec::new(),
    };
    let content = match content {
        Some(content) => content,
        None if !calls.is_empty() => String::new(),
        None => return Err("it has no \"content\"".into()),
    };
    Ok(Message {
        reasoning: reasoning.unwrap_or_default(),
        calls,
        call_id,
        ..Message::new(role, content)
    })
}
