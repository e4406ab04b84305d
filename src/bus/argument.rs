//! Texts and variants of calls, decoded with limits: a call may be as long as the bus allows, but little of it is kept.
//!
//! Past a limit the decoder skips the rest. `options` and `messages_argument` decide whether that is an error.

use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use zbus::{Signature, Type};

use crate::front::{self, TEXT_BYTES, TEXTS, Value, too_long};

/// A text, or its bytes if there are too many to keep it.
#[derive(Debug, PartialEq)]
pub(super) struct Text(pub(super) Result<String, usize>);

impl Text {
    /// Returns the text, or the error of a text that is too long.
    pub(super) fn read(self) -> Result<String, front::Error> {
        self.0.map_err(|bytes| too_long("text", bytes))
    }
}

impl Type for Text {
    const SIGNATURE: &'static Signature = <&str>::SIGNATURE;
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&str>::deserialize(deserializer)?;
        let mut room = TEXT_BYTES;
        Ok(Self(keep(text, &mut room)))
    }
}

/// Copies a text if there is room for it; otherwise returns its bytes.
fn keep(text: &str, room: &mut usize) -> Result<String, usize> {
    *room = room.checked_sub(text.len()).ok_or(text.len())?;
    Ok(text.to_owned())
}

/// Decodes a variant and its type. `room` is the number of bytes of text that may still be kept.
pub(super) struct VariantSeed<'a> {
    pub(super) room: &'a mut usize,
}

impl<'de> DeserializeSeed<'de> for VariantSeed<'_> {
    type Value = (Value, String);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for VariantSeed<'_> {
    type Value = (Value, String);

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a variant")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
        let missing = || serde::de::Error::custom("a variant is cut off");
        let kind: &str = parts.next_element()?.ok_or_else(missing)?;
        let seed = ContentSeed {
            kind,
            room: self.room,
        };
        let value = parts.next_element_seed(seed)?.ok_or_else(missing)?;
        Ok((value, kind.to_owned()))
    }
}

/// Decodes the content of a variant of type `kind`.
pub(super) struct ContentSeed<'a> {
    pub(super) kind: &'a str,
    pub(super) room: &'a mut usize,
}

impl<'de> DeserializeSeed<'de> for ContentSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

macro_rules! whole {
    ($($method:ident($type:ty);)+) => {
        $(fn $method<E>(self, value: $type) -> Result<Value, E> {
            Ok(Value::Whole(value.into()))
        })+
    };
}

impl<'de> Visitor<'de> for ContentSeed<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("what its type says")
    }

    whole! {
        visit_u8(u8);
        visit_u16(u16);
        visit_u32(u32);
        visit_u64(u64);
        visit_i16(i16);
        visit_i64(i64);
    }

    fn visit_i32<E>(self, value: i32) -> Result<Value, E> {
        // A file descriptor is decoded as its number.
        Ok(match self.kind {
            "h" => Value::Other,
            _ => Value::Whole(value.into()),
        })
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Number(value))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        // Object paths and signatures are decoded as texts, too.
        Ok(match self.kind {
            "s" => keep(text, self.room).map_or_else(Value::Long, Value::Text),
            _ => Value::Other,
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut texts = Vec::new();
        if self.kind == "as" {
            while let Some(text) = elements.next_element()? {
                if texts.len() == TEXTS {
                    let mut count = TEXTS + 1;
                    while elements.next_element::<IgnoredAny>()?.is_some() {
                        count += 1;
                    }
                    return Ok(Value::Many(count));
                }
                match keep(text, self.room) {
                    Ok(text) => texts.push(text),
                    Err(_) => return IgnoredAny.visit_seq(elements).map(|_| Value::Other),
                }
            }
        } else if elements.next_element::<IgnoredAny>()?.is_some() {
            return IgnoredAny.visit_seq(elements).map(|_| Value::Other);
        }
        Ok(Value::Texts(texts))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Value, A::Error> {
        IgnoredAny.visit_map(map).map(|_| Value::Other)
    }
}
