//! JSON of a request, read one level at a time: a value stays text until the field is known that it belongs to, so that
//! nothing is built of values that no field keeps.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;

/// The deepest nesting of a body.
pub(super) const DEEPEST: usize = 64;
/// Members of one object that has known fields.
const MEMBERS: usize = 128;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Truth,
    Number,
    Text,
    Array,
    Object,
}

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Truth => "a truth value",
            Self::Number => "a number",
            Self::Text => "a text",
            Self::Array => "an array",
            Self::Object => "an object",
        }
    }
}

/// Returns the type of a value.
pub(super) fn kind(raw: &RawValue) -> Kind {
    match raw.get().as_bytes().first() {
        Some(b'n') => Kind::Null,
        Some(b't' | b'f') => Kind::Truth,
        Some(b'"') => Kind::Text,
        Some(b'[') => Kind::Array,
        Some(b'{') => Kind::Object,
        _ => Kind::Number,
    }
}

/// A text that is copied only if it has escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Returns a text.
///
/// # Errors
/// The reason, if it is another value, or half a character.
pub(super) fn text(raw: &RawValue) -> Result<Cow<'_, str>, String> {
    if kind(raw) != Kind::Text {
        return Err(format!("it is {}; it must be a text", kind(raw).name()));
    }
    let text = serde_json::from_str::<Text<'_>>(raw.get());
    text.map(|text| text.0)
        .map_err(|error| format!("its text has a wrong escape ({error})"))
}

/// Returns true or false.
///
/// # Errors
/// The reason, if it is another value.
pub(super) fn truth(raw: &RawValue) -> Result<bool, String> {
    match raw.get() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!(
            "it is {}; it must be true or false",
            kind(raw).name()
        )),
    }
}

/// The members of an object, in its order.
pub(super) type Members<'a> = Vec<(Cow<'a, str>, &'a RawValue)>;

/// Returns the members of an object.
///
/// # Errors
/// The reason, if the text is no object, or one with too many members.
pub(super) fn object(text: &str) -> Result<Members<'_>, String> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let members = deserializer.deserialize_map(ObjectVisitor);
    let members = members.and_then(|members| deserializer.end().map(|()| members));
    members.map_err(|error| error.to_string())
}

/// Returns the elements of an array.
///
/// # Errors
/// The reason, if it is no array, or one with more than `most` elements.
pub(super) fn array(raw: &RawValue, most: usize) -> Result<Vec<&RawValue>, String> {
    if kind(raw) != Kind::Array {
        return Err(format!("it is {}; it must be an array", kind(raw).name()));
    }
    let mut deserializer = serde_json::Deserializer::from_str(raw.get());
    let elements = Elements { most }.deserialize(&mut deserializer);
    elements
        .map_err(|error| error.to_string())?
        .ok_or_else(|| format!("it has more than {most} elements; send fewer"))
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Members<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members: Members<'de> = Vec::new();
        while let Some(Text(name)) = map.next_key()? {
            if members.len() == MEMBERS {
                let why = format!("an object has more than {MEMBERS} members");
                return Err(A::Error::custom(why));
            }
            if members.iter().any(|(known, _)| *known == name) {
                let name = crate::front::shortened(&name);
                return Err(A::Error::custom(format!(
                    "the field {name:?} is there twice"
                )));
            }
            members.push((name, map.next_value()?));
        }
        Ok(members)
    }
}

/// Reads up to `most` elements; `None` if there are more.
struct Elements {
    most: usize,
}

impl<'de> DeserializeSeed<'de> for Elements {
    type Value = Option<Vec<&'de RawValue>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Elements {
    type Value = Option<Vec<&'de RawValue>>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let mut read = Vec::new();
        while read.len() < self.most {
            match elements.next_element()? {
                Some(element) => read.push(element),
                None => return Ok(Some(read)),
            }
        }
        if elements.next_element::<IgnoredAny>()?.is_none() {
            return Ok(Some(read));
        }
        while elements.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

/// Returns how deep the arrays and objects of a text nest, whether or not it is JSON.
pub(super) fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => {
                while let Some(byte) = bytes.next() {
                    match byte {
                        b'"' => break,
                        b'\\' => drop(bytes.next()),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_within_texts_do_not_nest() {
        assert_eq!(depth(r#"{"a": [1, [2]], "b": "[[[[\"[[[["}"#), 3);
        assert_eq!(depth(&"[".repeat(100_000)), 100_000);
        assert_eq!(depth(r#"]]]["\"#), 1);
    }

    #[test]
    fn objects_and_arrays_are_bounded() {
        let raw = |text: &str| serde_json::from_str::<Box<RawValue>>(text).expect("JSON");
        let three = raw("[1, {\"a\": [2]}, \"x\"]");
        assert_eq!(array(&three, 3).map(|array| array.len()), Ok(3));
        assert!(array(&three, 2).is_err_and(|why| why.contains("more than 2")));
        assert!(array(&raw("{}"), 2).is_err_and(|why| why.starts_with("it is an object")));
        let many: Vec<_> = (0..=MEMBERS).map(|n| format!("\"{n}\": 0")).collect();
        let many = format!("{{{}}}", many.join(","));
        assert!(object(&many).is_err_and(|why| why.contains("more than 128")));
        assert!(object(r#"{"a": 1, "\u0061": 2}"#).is_err_and(|why| why.contains("twice")));
        assert!(object("{} {}").is_err());
        assert!(text(&raw(r#""\ud800""#)).is_err());
    }
}
