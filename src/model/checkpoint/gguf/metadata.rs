//! The key-value metadata at the start of a GGUF file.

use std::collections::HashMap;

use super::reader::{LONGEST_NAME, LONGEST_TOKEN, LONGEST_VALUE, MOST_ITEMS, Reader};
use crate::model::Defect;

/// Shorter arrays may have a value for each layer.
const MOST_LAYERS: usize = 1 << 10;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bool(bool),
    String(String),
    Strings(Vec<String>),
    Integers(Vec<i32>),
    /// An array that nothing here reads.
    Unread,
}

impl Value {
    /// Long arrays are passed over but for those that are `wanted`.
    fn read(
        reader: &mut Reader<'_>,
        kind: u32,
        key: &str,
        wanted: &[&str],
    ) -> Result<Self, Defect> {
        Ok(match kind {
            0 => Self::Unsigned(u8::from_le_bytes(reader.bytes(key)?).into()),
            1 => Self::Signed(i8::from_le_bytes(reader.bytes(key)?).into()),
            2 => Self::Unsigned(u16::from_le_bytes(reader.bytes(key)?).into()),
            3 => Self::Signed(i16::from_le_bytes(reader.bytes(key)?).into()),
            4 => Self::Unsigned(u32::from_le_bytes(reader.bytes(key)?).into()),
            5 => Self::Signed(i32::from_le_bytes(reader.bytes(key)?).into()),
            6 => Self::Float(f32::from_le_bytes(reader.bytes(key)?).into()),
            7 => match reader.bytes(key)? {
                [0] => Self::Bool(false),
                [1] => Self::Bool(true),
                [other] => {
                    return Err(Defect::bad_value(key, other, "a boolean is 0 or 1"));
                }
            },
            8 => Self::String(reader.string(key, LONGEST_VALUE)?),
            9 => Self::read_array(reader, key, wanted.contains(&key))?,
            10 => Self::Unsigned(reader.u64(key)?),
            11 => Self::Signed(i64::from_le_bytes(reader.bytes(key)?)),
            12 => Self::Float(f64::from_le_bytes(reader.bytes(key)?)),
            other => {
                return Err(Defect::Malformed(format!(
                    "{key} has the unknown type {other}"
                )));
            }
        })
    }

    fn read_array(reader: &mut Reader<'_>, key: &str, is_read: bool) -> Result<Self, Defect> {
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
        let count = reader.count(key, item_bytes, MOST_ITEMS)?;
        // Not reserved ahead: a count that lies is found out before much has been pushed.
        Ok(match kind {
            8 if is_read => Self::Strings(
                (0..count)
                    .map(|_| reader.string(key, LONGEST_TOKEN))
                    .collect::<Result<_, _>>()?,
            ),
            8 => {
                (0..count).try_for_each(|_| reader.skip_string(key))?;
                Self::Unread
            }
            4 | 5 if is_read || count <= MOST_LAYERS => Self::Integers(
                (0..count)
                    .map(|_| reader.bytes(key).map(i32::from_le_bytes))
                    .collect::<Result<_, _>>()?,
            ),
            7 if count <= MOST_LAYERS => Self::Integers(
                (0..count)
                    .map(|_| reader.bytes(key).map(|[value]| i32::from(value)))
                    .collect::<Result<_, Defect>>()?,
            ),
            _ => {
                reader.skip(count as u64 * item_bytes, key)?;
                Self::Unread
            }
        })
    }

    fn describe(&self) -> String {
        match self {
            Self::Unsigned(value) => value.to_string(),
            Self::Signed(value) => value.to_string(),
            Self::Float(value) => value.to_string(),
            Self::Bool(value) => value.to_string(),
            Self::String(value) => format!("{value:?}"),
            Self::Strings(_) | Self::Integers(_) | Self::Unread => "an array".into(),
        }
    }
}

/// Values by key. An absent key is `None`; one of another type is an error.
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
            let key = reader.string("a metadata key", LONGEST_NAME)?;
            let kind = reader.u32(&key)?;
            let value = Value::read(reader, kind, &key, wanted)?;
            if values.contains_key(&key) {
                return Err(Defect::Malformed(format!("{key} is there twice")));
            }
            values.insert(key, value);
        }
        Ok(Self(values))
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

    pub(super) fn size(&self, key: &str) -> Result<Option<usize>, Defect> {
        self.get(key, "it must be a whole number", |value| match value {
            Value::Unsigned(value) => usize::try_from(*value).ok(),
            Value::Signed(value) => usize::try_from(*value).ok(),
            _ => None,
        })
    }

    pub(super) fn float(&self, key: &str) -> Result<Option<f64>, Defect> {
        self.get(key, "it must be a number", |value| match value {
            Value::Float(value) => Some(*value),
            _ => None,
        })
    }

    /// A number of any type, or a text of one; `Err` shows a value that is none.
    pub(super) fn number(&self, key: &str) -> Option<Result<f64, String>> {
        let value = self.0.get(key)?;
        #[allow(clippy::cast_precision_loss)] // what loses any is far beyond what anyone asks for
        let number = match value {
            Value::Unsigned(value) => Some(*value as f64),
            Value::Signed(value) => Some(*value as f64),
            Value::Float(value) => Some(*value),
            Value::String(text) => text.trim().parse().ok(),
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

    /// An array of which is told whether each is 0.
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

    pub(super) fn string(&self, key: &str) -> Result<Option<String>, Defect> {
        self.get(key, "it must be a string", |value| match value {
            Value::String(value) => Some(value.clone()),
            _ => None,
        })
    }

    /// An array of strings, taken out: vocabularies are large.
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

    /// An array of 32-bit integers, taken out.
    pub(super) fn take_integers(&mut self, key: &str) -> Result<Option<Vec<i32>>, Defect> {
        match self.0.remove(key) {
            None => Ok(None),
            Some(Value::Integers(integers)) => Ok(Some(integers)),
            Some(other) => Err(Defect::bad_value(
                key,
                other.describe(),
                "it must be an array of integers",
            )),
        }
    }
}

/// The value of a key that must be there.
pub(super) fn required<T>(value: Result<Option<T>, Defect>, key: &str) -> Result<T, Defect> {
    value?.ok_or_else(|| Defect::MissingKey(key.to_owned()))
}
