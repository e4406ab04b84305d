//! The parts of a message as D-Bus carries them, `aa{sv}`: each a dictionary of its fields. Decoding stops at the first
//! wrong part, and keeps nothing behind it.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::argument::ContentSeed;
use crate::front::{PARTS, Part, PartFields, PartValue, Value, shortened};

/// Decodes the variant of parts. `room` is the number of bytes of text that may still be kept.
pub(super) struct PartsSeed<'a> {
    pub(super) room: &'a mut usize,
}

impl PartsSeed<'_> {
    /// The D-Bus type of parts.
    const KIND: &'static str = "aa{sv}";
}

impl<'de> DeserializeSeed<'de> for PartsSeed<'_> {
    type Value = Result<Vec<Part>, String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for PartsSeed<'_> {
    type Value = Result<Vec<Part>, String>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a variant of parts")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut variant: A) -> Result<Self::Value, A::Error> {
        let missing = || serde::de::Error::custom("a variant is cut off");
        let kind: &str = variant.next_element()?.ok_or_else(missing)?;
        if kind != Self::KIND {
            variant.next_element::<IgnoredAny>()?;
            let kind = shortened(kind);
            return Ok(Err(format!(
                "its \"parts\" is of type {kind}; it must be an array of parts ({})",
                Self::KIND
            )));
        }
        let parts = variant.next_element_seed(Parts(self.room))?;
        parts.ok_or_else(missing)
    }
}

/// Decodes parts.
struct Parts<'a>(&'a mut usize);

impl<'de> DeserializeSeed<'de> for Parts<'_> {
    type Value = Result<Vec<Part>, String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Parts<'_> {
    type Value = Result<Vec<Part>, String>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array of parts")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let mut parts = Vec::new();
        while let Some(part) = elements.next_element_seed(OnePart(&mut *self.0))? {
            let problem = match part {
                Ok(part) if parts.len() < PARTS => {
                    parts.push(part);
                    continue;
                }
                Ok(_) => {
                    format!("it has more than {PARTS} parts, which is the most of one message")
                }
                Err(problem) => format!("part {}: {problem}", parts.len()),
            };
            IgnoredAny.visit_seq(elements)?;
            return Ok(Err(problem));
        }
        Ok(Ok(parts))
    }
}

/// Decodes one part, or finds the reason why it is wrong.
struct OnePart<'a>(&'a mut usize);

impl<'de> DeserializeSeed<'de> for OnePart<'_> {
    type Value = Result<Part, String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for OnePart<'_> {
    type Value = Result<Part, String>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the fields of a part")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = PartFields::default();
        while let Some(name) = map.next_key::<&str>()? {
            let (value, kind) = map.next_value_seed(FieldSeed(&mut *self.0))?;
            if let Err(error) = fields.read(name, value, kind) {
                IgnoredAny.visit_map(map)?;
                return Ok(Err(error.to_string()));
            }
        }
        Ok(fields.part().map_err(|error| error.to_string()))
    }
}

/// Decodes the variant of a field, and returns its type too.
struct FieldSeed<'a>(&'a mut usize);

impl<'de> DeserializeSeed<'de> for FieldSeed<'_> {
    type Value = (PartValue, &'de str);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for FieldSeed<'_> {
    type Value = (PartValue, &'de str);

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a variant")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut variant: A) -> Result<Self::Value, A::Error> {
        let missing = || serde::de::Error::custom("a variant is cut off");
        let kind: &str = variant.next_element()?.ok_or_else(missing)?;
        let value = match kind {
            "h" => variant
                .next_element::<zbus::OwnedFd>()?
                .map(|file| PartValue::File(file.into())),
            // The longest call bounds them.
            "ay" => variant
                .next_element_seed(Bytes)?
                .map(|bytes| PartValue::Data(bytes.to_vec())),
            _ => {
                let room = self.0;
                let value = variant.next_element_seed(ContentSeed { kind, room })?;
                value.map(|value| match value {
                    Value::Text(text) => PartValue::Text(text),
                    Value::Long(_) => PartValue::Long,
                    Value::Whole(number) => PartValue::Whole(number),
                    _ => PartValue::Other,
                })
            }
        };
        Ok((value.ok_or_else(missing)?, kind))
    }
}

/// Decodes an array of bytes, as a whole.
struct Bytes;

impl<'de> DeserializeSeed<'de> for Bytes {
    type Value = &'de [u8];

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_bytes(self)
    }
}

impl<'de> Visitor<'de> for Bytes {
    type Value = &'de [u8];

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array of bytes")
    }

    fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
        Ok(bytes)
    }
}
