//! The key-value metadata at the start of a GGUF file.

use std::collections::HashMap;

use super::reader::{LONGEST_KEY, LONGEST_TOKEN, LONGEST_VALUE, MOST_ITEMS, Reader};
use crate::model::error::Defect;

/// The most layers of a model: arrays up to this length may have a value for each layer.
const MOST_LAYERS: usize = 1 << 10;

/// A value as its file has it. A text or an array is checked at its use, so an unused one cannot be an error.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bool(bool),
    /// The bytes of a text.
    Text(Vec<u8>),
    /// The length of a text that is too long to be read.
    LongText(u64),
    Strings(Vec<String>),
    Integers(Vec<i64>),
    Floats(Vec<f32>),
    /// The length of an array that is skipped.
    Unread(usize),
}

impl Value {
    /// Reads a value. Long arrays are skipped, except for the `wanted` keys.
    fn read(
        reader: &mut Reader<'_>,
        kind: u32,
        key: &str,
        wanted: &[&str],
    ) -> Result<Self, Defect> {
        Ok(match kind {
            6 => Self::Float(f32::from_le_bytes(reader.bytes(key)?).into()),
            7 => reader.bytes(key).map(|[byte]| Self::Bool(byte != 0))?,
            8 => {
                let length = reader.length(key)?;
                if length > LONGEST_VALUE {
                    reader.skip(length, key)?;
                    return Ok(Self::LongText(length));
                }
                Self::Text(reader.text(key, length)?)
            }
            9 => Self::read_array(reader, key, wanted.contains(&key))?,
            10 => Self::Unsigned(reader.u64(key)?),
            12 => Self::Float(f64::from_le_bytes(reader.bytes(key)?)),
            _ => {
                Self::Signed(integer(reader, kind, key)?.ok_or_else(|| {
                    Defect::Malformed(format!("{key} has the unknown type {kind}"))
                })?)
            }
        })
    }

    fn read_array(reader: &mut Reader<'_>, key: &str, is_wanted: bool) -> Result<Self, Defect> {
        let kind = reader.u32(key)?;
        let item_bytes: u64 = match kind {
            0 | 1 | 7 => 1,
            2 | 3 => 2,
            4..=6 => 4,
            8 | 10..=12 => 8,
            other => {
                return Err(Defect::Malformed(format!(
                    "{key} is an array of the type {other}"
                )));
            }
        };
        let most = if is_wanted { MOST_ITEMS } else { u64::MAX };
        let count = reader.count(key, item_bytes, most)?;
        let is_short = is_wanted || count <= MOST_LAYERS;
        // No memory is reserved, because the count may be wrong.
        Ok(match kind {
            8 if is_wanted => Self::Strings(
                (0..count)
                    .map(|_| reader.string(key, LONGEST_TOKEN))
                    .collect::<Result<_, _>>()?,
            ),
            8 => {
                (0..count).try_for_each(|_| reader.skip_string(key))?;
                Self::Unread(count)
            }
            0..=5 | 7 | 10 | 11 if is_short => Self::Integers(
                (0..count)
                    .map(|_| Ok(integer(reader, kind, key)?.unwrap_or_default()))
                    .collect::<Result<_, Defect>>()?,
            ),
            6 if is_wanted => Self::Floats(
                (0..count)
                    .map(|_| reader.bytes(key).map(f32::from_le_bytes))
                    .collect::<Result<_, _>>()?,
            ),
            _ => {
                reader.skip(count as u64 * item_bytes, key)?;
                Self::Unread(count)
            }
        })
    }

    /// Returns a whole number: the value itself, or the one that an array repeats for each layer.
    fn whole(&self) -> Option<usize> {
        match self {
            Self::Unsigned(value) => usize::try_from(*value).ok(),
            Self::Signed(value) => usize::try_from(*value).ok(),
            Self::Integers(values) => {
                let first = values.first()?;
                let is_same = values.iter().all(|value| value == first);
                usize::try_from(*first).ok().filter(|_| is_same)
            }
            _ => None,
        }
    }

    /// Returns the length of an array.
    const fn length(&self) -> Option<usize> {
        match self {
            Self::Strings(values) => Some(values.len()),
            Self::Integers(values) => Some(values.len()),
            Self::Floats(values) => Some(values.len()),
            Self::Unread(count) => Some(*count),
            _ => None,
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::Unsigned(value) => value.to_string(),
            Self::Signed(value) => value.to_string(),
            Self::Float(value) => value.to_string(),
            Self::Bool(value) => value.to_string(),
            Self::Text(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
            Self::LongText(length) => format!("a text of {length} bytes"),
            Self::Integers(values) if values.len() <= 8 => format!("{values:?}"),
            Self::Strings(values) => format!("an array of {} texts", values.len()),
            Self::Integers(values) => format!("an array of {} numbers", values.len()),
            Self::Floats(values) => format!("an array of {} numbers", values.len()),
            Self::Unread(count) => format!("an array of {count}"),
        }
    }
}

/// Values by key. A missing key is `None`; a value of another type is an error.
#[derive(Debug)]
pub(super) struct Metadata(HashMap<String, Value>);

impl Metadata {
    pub(super) fn read(
        reader: &mut Reader<'_>,
        count: usize,
        wanted: &[&str],
    ) -> Result<Self, Defect> {
        let mut values = HashMap::new();
        for _ in 0..count {
            let key = reader.string("a metadata key", LONGEST_KEY)?;
            let kind = reader.u32(&key)?;
            let value = Value::read(reader, kind, &key, wanted)?;
            if values.contains_key(&key) {
                return Err(Defect::Malformed(format!("{key} is there twice")));
            }
            values.insert(key, value);
        }
        Ok(Self(values))
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// Returns the length of a key's array.
    pub(super) fn length(&self, key: &str) -> Option<usize> {
        self.0.get(key)?.length()
    }

    /// Refuses a key, whatever its value.
    pub(super) fn refuse(&self, key: &str, allowed: &str) -> Result<(), Defect> {
        self.get(key, allowed, |_| None::<()>).map(drop)
    }

    fn get<T>(
        &self,
        key: &str,
        allowed: &str,
        convert: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<Option<T>, Defect> {
        self.0
            .get(key)
            .map(|value| {
                convert(value).ok_or_else(|| Defect::bad_value(key, value.describe(), allowed))
            })
            .transpose()
    }

    /// Returns a whole number. An array counts if it repeats one number for each layer.
    pub(super) fn size(&self, key: &str) -> Result<Option<usize>, Defect> {
        let allowed = "only a whole number is supported, the same for each layer";
        self.get(key, allowed, Value::whole)
    }

    /// Returns a whole number for each of `count` layers: one that all share, or those of an array.
    pub(super) fn sizes(&self, key: &str, count: usize) -> Result<Option<Vec<usize>>, Defect> {
        let allowed = "it must be a whole number, or an array of them";
        self.get(key, allowed, |value| match value {
            Value::Integers(values) => {
                let sizes = values.iter().map(|value| usize::try_from(*value).ok());
                sizes.collect()
            }
            value => value.whole().map(|size| vec![size; count]),
        })
    }

    pub(super) fn float(&self, key: &str) -> Result<Option<f64>, Defect> {
        self.get(key, "it must be a number", |value| match value {
            Value::Float(value) => Some(*value),
            #[allow(clippy::cast_precision_loss)] // such a number is small
            value => value.whole().map(|value| value as f64),
        })
    }

    /// Returns a number of any type, or the number in a text; the error shows a value that is neither.
    pub(super) fn number(&self, key: &str) -> Option<Result<f64, String>> {
        let value = self.0.get(key)?;
        #[allow(clippy::cast_precision_loss)] // what loses any is far beyond what anyone asks for
        let number = match value {
            Value::Unsigned(value) => Some(*value as f64),
            Value::Signed(value) => Some(*value as f64),
            Value::Float(value) => Some(*value),
            Value::Text(text) => std::str::from_utf8(text)
                .ok()
                .and_then(|text| text.trim().parse().ok()),
            _ => None,
        };
        Some(number.ok_or_else(|| value.describe()))
    }

    pub(super) fn boolean(&self, key: &str) -> Result<Option<bool>, Defect> {
        self.get(key, "it must be a boolean", |value| match value {
            Value::Bool(value) => Some(*value),
            _ => None,
        })
    }

    /// Returns for each element of an array whether it differs from 0.
    pub(super) fn flags(&self, key: &str) -> Result<Option<Vec<bool>>, Defect> {
        self.get(
            key,
            "it must be an array of booleans",
            |value| match value {
                Value::Integers(values) => Some(values.iter().map(|value| *value != 0).collect()),
                _ => None,
            },
        )
    }

    /// Returns all keys, sorted.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        let mut keys: Vec<_> = self.0.keys().map(String::as_str).collect();
        keys.sort_unstable();
        keys.into_iter()
    }

    pub(super) fn string(&self, key: &str) -> Result<Option<String>, Defect> {
        let allowed = format!("it must be a text in UTF-8 of at most {LONGEST_VALUE} bytes");
        self.get(key, &allowed, |value| match value {
            Value::Text(bytes) => String::from_utf8(bytes.clone()).ok(),
            _ => None,
        })
    }

    /// Takes an array of strings out of the metadata, because vocabularies are large.
    pub(super) fn take_strings(&mut self, key: &str) -> Result<Option<Vec<String>>, Defect> {
        match self.0.remove(key) {
            None => Ok(None),
            Some(Value::Strings(strings)) => Ok(Some(strings)),
            Some(other) => Err(Defect::bad_value(
                key,
                other.describe(),
                "it must be an array of strings",
            )),
        }
    }

    /// Takes an array of numbers out of the metadata.
    pub(super) fn take_floats(&mut self, key: &str) -> Result<Option<Vec<f32>>, Defect> {
        match self.0.remove(key) {
            None => Ok(None),
            Some(Value::Floats(floats)) => Ok(Some(floats)),
            #[allow(clippy::cast_precision_loss)] // as llama.cpp does
            Some(Value::Integers(integers)) => {
                Ok(Some(integers.into_iter().map(|one| one as f32).collect()))
            }
            Some(other) => Err(Defect::bad_value(
                key,
                other.describe(),
                "it must be an array of numbers",
            )),
        }
    }

    /// Takes an array of 32-bit integers out of the metadata.
    pub(super) fn take_integers(&mut self, key: &str) -> Result<Option<Vec<i32>>, Defect> {
        match self.0.remove(key) {
            None => Ok(None),
            Some(Value::Integers(integers)) => {
                let narrow = integers.into_iter().map(|integer| {
                    let bad = |_| Defect::bad_value(key, integer, "it must fit 32 bits");
                    i32::try_from(integer).map_err(bad)
                });
                narrow.collect::<Result<_, _>>().map(Some)
            }
            Some(other) => Err(Defect::bad_value(
                key,
                other.describe(),
                "it must be an array of integers",
            )),
        }
    }
}

/// Reads a whole number that fits a signed 64-bit integer; `None` for another type.
fn integer(reader: &mut Reader<'_>, kind: u32, key: &str) -> Result<Option<i64>, Defect> {
    Ok(Some(match kind {
        0 | 7 => u8::from_le_bytes(reader.bytes(key)?).into(),
        1 => i8::from_le_bytes(reader.bytes(key)?).into(),
        2 => u16::from_le_bytes(reader.bytes(key)?).into(),
        3 => i16::from_le_bytes(reader.bytes(key)?).into(),
        4 => u32::from_le_bytes(reader.bytes(key)?).into(),
        5 => i32::from_le_bytes(reader.bytes(key)?).into(),
        10 | 11 => i64::from_le_bytes(reader.bytes(key)?),
        _ => return Ok(None),
    }))
}

/// Returns the value of a required key.
pub(super) fn required<T>(value: Result<Option<T>, Defect>, key: &str) -> Result<T, Defect> {
    value?.ok_or_else(|| Defect::MissingKey(key.to_owned()))
}
