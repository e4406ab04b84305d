//! Options as they are decoded: a dictionary, of which no more is kept than a call may have.

use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use zbus::{Signature, Type};

use super::argument::{ContentSeed, TEXT_BYTES, Value, shortened};
use super::messages::{Messages, MessagesVisitor};
use super::offered::Offered;
use super::proxy::Info;

/// Entries of one dictionary: many more than there are options.
pub(super) const ENTRIES: usize = 64;

/// A dictionary: options.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries {
    pub(super) kept: Vec<Entry>,
    /// Whether there were more than `ENTRIES`.
    pub(super) more: bool,
}

/// An entry of a dictionary.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    /// Shortened.
    pub(super) name: String,
    pub(super) value: Value,
    /// What is in place of a value where the option takes messages.
    pub(super) messages: Option<Messages>,
    /// The D-Bus type of the value.
    pub(super) kind: String,
}

impl Type for Entries {
    const SIGNATURE: &'static Signature = Info::SIGNATURE;
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a dictionary of variants")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
        let mut entries = Entries::default();
        let mut room = TEXT_BYTES;
        while let Some(name) = map.next_key::<&str>()? {
            if entries.kept.len() == ENTRIES {
                entries.more = true;
                map.next_value::<IgnoredAny>()?;
                IgnoredAny.visit_map(map)?;
                break;
            }
            let name = shortened(name);
            let room = &mut room;
            entries
                .kept
                .push(map.next_value_seed(EntrySeed { name, room })?);
        }
        Ok(entries)
    }
}

/// Reads the variant of an entry. `room` is what may still be kept of texts.
struct EntrySeed<'a> {
    name: String,
    room: &'a mut usize,
}

impl<'de> DeserializeSeed<'de> for EntrySeed<'_> {
    type Value = Entry;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Entry, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for EntrySeed<'_> {
    type Value = Entry;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a variant")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Entry, A::Error> {
        let Self { name, room } = self;
        let missing = || serde::de::Error::custom("a variant is cut off");
        let kind: &str = parts.next_element()?.ok_or_else(missing)?;
        let (value, messages) = if kind == Messages::KIND {
            let messages = parts.next_element_seed(MessagesVisitor { room })?;
            (Value::Other, Some(messages.ok_or_else(missing)?))
        } else if kind == Offered::KIND && name == "tools" {
            let tools = parts.next_element_seed(Offered { room })?;
            (tools.ok_or_else(missing)?, None)
        } else {
            let value = parts.next_element_seed(ContentSeed { kind, room })?;
            (value.ok_or_else(missing)?, None)
        };
        Ok(Entry {
            name,
            value,
            messages,
            kind: kind.to_owned(),
        })
    }
}
