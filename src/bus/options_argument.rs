//! Options as D-Bus carries them, `a{sv}`: decoded into plain values, of which no more is kept than a call may have.

use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use zbus::{Signature, Type};

use super::argument::ContentSeed;
use super::messages_argument::{Messages, MessagesVisitor};
use super::proxy::Info;
use super::tools_argument::ToolsSeed;
use crate::front::{GivenOption, GivenOptions, MOST_OPTIONS, TEXT_BYTES, Value, shortened};

/// The options of a call.
#[derive(Clone, Debug, Default)]
pub(super) struct OptionsArgument(pub(super) GivenOptions);

impl Type for OptionsArgument {
    const SIGNATURE: &'static Signature = Info::SIGNATURE;
}

impl<'de> Deserialize<'de> for OptionsArgument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OptionsVisitor).map(Self)
    }
}

struct OptionsVisitor;

impl<'de> Visitor<'de> for OptionsVisitor {
    type Value = GivenOptions;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a dictionary of variants")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<GivenOptions, A::Error> {
        let mut options = GivenOptions::default();
        let mut room = TEXT_BYTES;
        while let Some(name) = map.next_key::<&str>()? {
            if options.kept.len() == MOST_OPTIONS {
                options.more = true;
                map.next_value::<IgnoredAny>()?;
                IgnoredAny.visit_map(map)?;
                break;
            }
            let seed = OptionSeed {
                name: shortened(name),
                room: &mut room,
            };
            options.kept.push(map.next_value_seed(seed)?);
        }
        Ok(options)
    }
}

/// Decodes the variant of one option. `room` is the number of bytes of text that may still be kept.
struct OptionSeed<'a> {
    name: String,
    room: &'a mut usize,
}

impl<'de> DeserializeSeed<'de> for OptionSeed<'_> {
    type Value = GivenOption;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<GivenOption, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for OptionSeed<'_> {
    type Value = GivenOption;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a variant")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<GivenOption, A::Error> {
        let Self { name, room } = self;
        let missing = || serde::de::Error::custom("a variant is cut off");
        let kind: &str = parts.next_element()?.ok_or_else(missing)?;
        let value = if kind == Messages::KIND {
            let messages = parts.next_element_seed(MessagesVisitor { room })?;
            messages.map(|Messages(messages)| Value::Messages(messages))
        } else if kind == ToolsSeed::KIND && name == "tools" {
            parts.next_element_seed(ToolsSeed { room })?
        } else {
            parts.next_element_seed(ContentSeed { kind, room })?
        };
        Ok(GivenOption {
            name,
            value: value.ok_or_else(missing)?,
            type_name: kind.to_owned(),
        })
    }
}
