//! What callers send, as it is decoded: a call may be as long as the bus allows, but what is kept of it may not. Past a
//! limit the rest is walked over, and nothing of it is kept.
//!
//! Whether a call is refused for it, and with what error, is for `messages` and `options` to say.

use std::fmt;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use zbus::{Signature, Type};

/// Bytes of text in one call. It is held once for each request that waits; no context takes more.
pub const TEXT_BYTES: usize = 1 << 20;
/// Texts of one array: choices.
pub(super) const TEXTS: usize = 256;

/// A text, or how many bytes it has if that is too many.
#[derive(Debug, PartialEq)]
pub(super) struct Text(pub(super) Result<String, usize>);

impl Type for Text {
    const SIGNATURE: &'static Signature = <&str>::SIGNATURE;
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&str>::deserialize(deserializer)?;
        let mut room = TEXT_BYTES;
        Ok(Self(kept(text, &mut room)))
    }
}

/// Keeps a text if there is room for it.
fn kept(text: &str, room: &mut usize) -> Result<String, usize> {
    *room = room.checked_sub(text.len()).ok_or(text.len())?;
    Ok(text.to_owned())
}

/// What a variant holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Bool(bool),
    /// It may have any integer type: languages differ in what they make of a plain number.
    Whole(i128),
    Number(f64),
    Text(String),
    /// Bytes of a text that there was no room for.
    Long(usize),
    /// There are at most `TEXTS`; an empty array of whatever type is one.
    Texts(Vec<String>),
    /// How many texts, of which there are too many.
    Many(usize),
    /// Anything else, of which nothing is kept.
    Other,
}

/// Reads a variant, and of which type it is. `room` is what may still be kept of texts.
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

/// What is in a variant of this type.
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
        // A file descriptor comes as its number.
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
        // Object paths and signatures are texts, too.
        Ok(match self.kind {
            "s" => kept(text, self.room).map_or_else(Value::Long, Value::Text),
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
                match kept(text, self.room) {
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

/// Errors quote what they refuse, but never megabytes of it.
pub(super) fn shortened(text: &str) -> String {
    const CHARS: usize = 60;
    let mut short: String = text.chars().take(CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
