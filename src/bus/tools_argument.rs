//! Tools as D-Bus types, `a(ssa{sv})`: a name, a description, and the parameters as a dictionary. They are decoded to the
//! JSON text that callers may also give; the module `tools` checks it.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value as Json, json};

use super::argument::ContentSeed;
use crate::front::{TEXT_BYTES, Value};

/// Bytes that a value of a dictionary counts for, in addition to its text.
const VALUE_BYTES: usize = 16;

/// Decodes tools. `room` is the number of bytes of text that may still be kept.
pub(super) struct ToolsSeed<'a> {
    pub(super) room: &'a mut usize,
}

/// The reason why a value is not kept; the decoder has skipped the rest of it.
enum Unfit {
    Long,
    /// Its type is not one of JSON.
    Other,
}

type Decoded = Result<Json, Unfit>;

fn take(room: &mut usize, bytes: usize) -> Result<(), Unfit> {
    *room = room.checked_sub(bytes).ok_or(Unfit::Long)?;
    Ok(())
}

impl ToolsSeed<'_> {
    /// The D-Bus type of tools.
    pub(super) const KIND: &'static str = "a(ssa{sv})";
}

impl<'de> DeserializeSeed<'de> for ToolsSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ToolsSeed<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array of tools")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut tools = Vec::new();
        while let Some(tool) = elements.next_element_seed(Tool { room: self.room })? {
            match tool {
                Ok(tool) => tools.push(tool),
                Err(unfit) => {
                    IgnoredAny.visit_seq(elements)?;
                    return Ok(match unfit {
                        Unfit::Long => Value::Long(TEXT_BYTES + 1),
                        Unfit::Other => Value::Other,
                    });
                }
            }
        }
        Ok(Value::Text(Json::from(tools).to_string()))
    }
}

/// Decodes one tool.
struct Tool<'a> {
    room: &'a mut usize,
}

impl<'de> DeserializeSeed<'de> for Tool<'_> {
    type Value = Decoded;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Decoded, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tool<'_> {
    type Value = Decoded;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a tool")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Decoded, A::Error> {
        let missing = || serde::de::Error::custom("a tool is cut off");
        let name: &str = parts.next_element()?.ok_or_else(missing)?;
        let description: &str = parts.next_element()?.ok_or_else(missing)?;
        if let Err(unfit) = take(self.room, name.len() + description.len() + 4 * VALUE_BYTES) {
            parts.next_element::<IgnoredAny>()?;
            return Ok(Err(unfit));
        }
        let kind = "a{sv}";
        let room = self.room;
        let parameters = parts.next_element_seed(Content { kind, room })?;
        let mut function = json!({"name": name, "description": description});
        match parameters.ok_or_else(missing)? {
            // An empty dictionary means no parameters.
            Ok(Json::Object(none)) if none.is_empty() => {}
            Ok(parameters) => function["parameters"] = parameters,
            Err(unfit) => return Ok(Err(unfit)),
        }
        Ok(Ok(json!({"type": "function", "function": function})))
    }
}

/// Decodes an element of a container: a variant, or a value of another type.
struct Element<'a> {
    kind: &'a str,
    room: &'a mut usize,
}

impl<'de> DeserializeSeed<'de> for Element<'_> {
    type Value = Decoded;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Decoded, D::Error> {
        let Self { kind, room } = self;
        if kind == "v" {
            deserializer.deserialize_any(VariantContent { room })
        } else {
            Content { kind, room }.deserialize(deserializer)
        }
    }
}

/// Decodes a variant.
struct VariantContent<'a> {
    room: &'a mut usize,
}

impl<'de> Visitor<'de> for VariantContent<'_> {
    type Value = Decoded;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a variant")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Decoded, A::Error> {
        let missing = || serde::de::Error::custom("a variant is cut off");
        let kind: &str = parts.next_element()?.ok_or_else(missing)?;
        let room = self.room;
        let value = parts.next_element_seed(Element { kind, room })?;
        value.ok_or_else(missing)
    }
}

/// Decodes a value of type `kind`.
struct Content<'a> {
    kind: &'a str,
    room: &'a mut usize,
}

impl<'de> DeserializeSeed<'de> for Content<'_> {
    type Value = Decoded;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Decoded, D::Error> {
        if self.kind.starts_with('a') {
            return deserializer.deserialize_any(self);
        }
        let Self { kind, room } = self;
        let seed = ContentSeed {
            kind,
            room: &mut *room,
        };
        let simple = simple(seed.deserialize(deserializer)?);
        Ok(simple.and_then(|json| take(room, VALUE_BYTES).map(|()| json)))
    }
}

/// Returns the JSON of a value that is not a container.
fn simple(value: Value) -> Decoded {
    match value {
        Value::Bool(truth) => Ok(truth.into()),
        Value::Whole(n) => {
            let unsigned = u64::try_from(n).map(Json::from);
            let number = unsigned.or_else(|_| i64::try_from(n).map(Json::from));
            number.map_err(|_| Unfit::Other)
        }
        Value::Number(number) if number.is_finite() => Ok(number.into()),
        Value::Text(text) => Ok(text.into()),
        Value::Long(_) => Err(Unfit::Long),
        _ => Err(Unfit::Other),
    }
}

impl<'de> Visitor<'de> for Content<'_> {
    type Value = Decoded;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a container")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Decoded, A::Error> {
        let Self { kind, room } = self;
        let Some(kind) = kind.strip_prefix('a') else {
            return IgnoredAny.visit_seq(elements).map(|_| Err(Unfit::Other));
        };
        let mut array = Vec::new();
        let mut read = take(room, VALUE_BYTES);
        while read.is_ok() {
            match elements.next_element_seed(Element { kind, room })? {
                Some(Ok(element)) => array.push(element),
                Some(Err(unfit)) => read = Err(unfit),
                None => return Ok(Ok(array.into())),
            }
        }
        IgnoredAny.visit_seq(elements)?;
        Ok(read.map(|()| Json::Null))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Decoded, A::Error> {
        let Self { kind, room } = self;
        let kind = kind.strip_prefix("a{s");
        let Some(kind) = kind.and_then(|kind| kind.strip_suffix('}')) else {
            return IgnoredAny.visit_map(entries).map(|_| Err(Unfit::Other));
        };
        let mut object = Map::new();
        let mut read = take(room, VALUE_BYTES);
        while read.is_ok() {
            let Some(name) = entries.next_key::<&str>()? else {
                return Ok(Ok(object.into()));
            };
            match entries.next_value_seed(Element { kind, room })? {
                Ok(value) => {
                    object.insert(name.to_owned(), value);
                    read = take(room, VALUE_BYTES + name.len());
                }
                Err(unfit) => read = Err(unfit),
            }
        }
        IgnoredAny.visit_map(entries)?;
        Ok(read.map(|()| Json::Null))
    }
}
