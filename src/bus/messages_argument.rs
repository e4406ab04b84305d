//! Messages as D-Bus carries them, `a(sa{sv})`: each a role and its fields. Decoding stops at the first wrong message, and
//! keeps nothing behind it.

use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use zbus::{Array, Signature, Str, Type};

use super::argument::VariantSeed;
use super::parts_argument::PartsSeed;
use super::proxy::Info;
use crate::engine::{Message, MessageImage, Said};
use crate::front::{
    self, GivenMessages, MESSAGES, MessageFields, PlacedImage, TEXT_BYTES, Value, role, shortened,
};
use crate::tools;

/// The messages, or the reason why one of them is wrong.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Messages(pub(super) Result<GivenMessages, String>);

impl Messages {
    /// Their D-Bus type.
    pub(super) const KIND: &str = "a(sa{sv})";

    pub(super) fn read(self) -> Result<GivenMessages, front::Error> {
        self.0.map_err(front::Error::Messages)
    }
}

/// Encodes a message of a session in the form that callers give messages in.
pub(super) fn encode(said: Said) -> (String, Info) {
    let Said {
        message,
        partial,
        dropped,
    } = said;
    let Message {
        role,
        content,
        images,
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
    for (name, numbers) in places(&images) {
        if !numbers.is_empty()
            && let Ok(numbers) = Array::from(numbers).try_into()
        {
            fields.insert(name.to_owned(), numbers);
        }
    }
    for (name, holds) in [("partial", partial), ("dropped", dropped)] {
        if holds {
            fields.insert(name.to_owned(), true.into());
        }
    }
    (role.name().to_owned(), fields)
}

/// Returns the bytes of a message's content before which its images stand, and the numbers of those whose bytes are lost.
fn places(images: &[MessageImage]) -> [(&'static str, Vec<u32>); 2] {
    let count = |number| u32::try_from(number).unwrap_or(u32::MAX);
    let numbered = images.iter().enumerate();
    let lost = numbered.filter(|(_, image)| image.image.is_none());
    [
        (
            "images",
            images.iter().map(|image| count(image.at)).collect(),
        ),
        (
            "lost_images",
            lost.map(|(number, _)| count(number)).collect(),
        ),
    ]
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

/// Decodes messages. `room` is the number of bytes of text that may still be kept.
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
        let mut given = GivenMessages::default();
        let problem = loop {
            let number = given.messages.len();
            if number == MESSAGES {
                if elements.next_element::<IgnoredAny>()?.is_none() {
                    return Ok(Messages(Ok(given)));
                }
                break format!(
                    "there are more than {MESSAGES} messages, which is the most of one call"
                );
            }
            let seed = MessageSeed {
                number,
                room: &mut *self.room,
            };
            let Some(message) = elements.next_element_seed(seed)? else {
                return Ok(Messages(Ok(given)));
            };
            let pushed = message.and_then(|(message, images)| given.push(message, images));
            if let Err(problem) = pushed {
                break format!("message {number}: {problem}");
            }
        };
        IgnoredAny.visit_seq(elements)?;
        Ok(Messages(Err(problem)))
    }
}

/// Decodes one message, or finds the reason why it is wrong.
struct MessageSeed<'a> {
    number: usize,
    room: &'a mut usize,
}

impl<'de> DeserializeSeed<'de> for MessageSeed<'_> {
    type Value = Result<(Message, Vec<PlacedImage>), String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_tuple(2, self)
    }
}

impl<'de> Visitor<'de> for MessageSeed<'_> {
    type Value = Result<(Message, Vec<PlacedImage>), String>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a role and its fields")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
        let missing = || serde::de::Error::custom("a message is cut off");
        let name: &str = parts.next_element()?.ok_or_else(missing)?;
        let role = match role(name) {
            Ok(role) => role,
            Err(problem) => {
                parts.next_element::<IgnoredAny>()?;
                return Ok(Err(problem));
            }
        };
        let fields = parts.next_element_seed(FieldsSeed { room: self.room })?;
        let fields = fields.ok_or_else(missing)?;
        Ok(fields.and_then(|fields| fields.message(role, self.number)))
    }
}

/// Decodes the fields of a message.
struct FieldsSeed<'a> {
    room: &'a mut usize,
}

impl<'de> DeserializeSeed<'de> for FieldsSeed<'_> {
    type Value = Result<MessageFields, String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for FieldsSeed<'_> {
    type Value = Result<MessageFields, String>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the fields of a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = MessageFields::default();
        let problem = loop {
            let Some(name) = map.next_key::<&str>()? else {
                return Ok(Ok(fields));
            };
            // `Session.Messages` and `ReadSession` report these; the model does not read them.
            if ["partial", "dropped"].contains(&name) {
                match map.next_value_seed(VariantSeed { room: &mut 0 })? {
                    (Value::Bool(_), _) => continue,
                    (_, kind) => {
                        let kind = shortened(&kind);
                        break format!(
                            "its {name:?} is of type {kind}; it must be true or false (b)"
                        );
                    }
                }
            }
            if name == "parts" {
                if fields.parts.is_some() {
                    map.next_value::<IgnoredAny>()?;
                    break "its \"parts\" is there twice".to_owned();
                }
                let seed = PartsSeed {
                    room: &mut *self.room,
                };
                match map.next_value_seed(seed)? {
                    Ok(parts) => fields.parts = Some(parts),
                    Err(problem) => break problem,
                }
                continue;
            }
            if ["images", "lost_images"].contains(&name) {
                let name = name.to_owned();
                map.next_value::<IgnoredAny>()?;
                break format!(
                    "its {name:?} says where images were, and has no image: send the images again, as \"parts\""
                );
            }
            let Some(field) = fields.field(name) else {
                map.next_value::<IgnoredAny>()?;
                let (name, known) = (shortened(name), MessageFields::NAMES);
                break format!("unknown field {name:?}; known are {known}");
            };
            let name = name.to_owned();
            if field.is_some() {
                map.next_value::<IgnoredAny>()?;
                break format!("its {name:?} is there twice");
            }
            let seed = VariantSeed {
                room: &mut *self.room,
            };
            *field = match map.next_value_seed(seed)? {
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
        IgnoredAny.visit_map(map)?;
        Ok(Err(problem))
    }
}
