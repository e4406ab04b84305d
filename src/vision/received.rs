//! An image as received, kept as long as a conversation shows it.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::source::{Color, ColorRange, Format, Source};
use crate::choice::Choice;

/// What a caller says of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fields {
    pub format: Format,
    pub width: Option<u32>,
    pub height: Option<u32>,
    /// Bytes from the start of a row to the next.
    pub stride: Option<u32>,
    pub color: Option<Color>,
    pub range: Option<ColorRange>,
    /// The most tokens that the image may take.
    pub max_tokens: Option<u32>,
}

/// The bytes of an image, and what its caller says of them. Its header has been checked.
pub struct Received {
    bytes: Arc<Vec<u8>>,
    pub fields: Fields,
    /// Counts the bytes for their user until it is dropped.
    _counted: Box<dyn Send + Sync>,
}

impl Received {
    /// Returns an image whose bytes are counted until `counted` is dropped.
    pub fn new(bytes: Box<[u8]>, fields: Fields, counted: impl Send + Sync + 'static) -> Self {
        Self {
            bytes: Arc::new(bytes.into_vec()),
            fields,
            _counted: Box::new(counted),
        }
    }

    /// Returns the same image with the same bytes, which are not counted.
    #[must_use]
    pub fn uncounted(&self) -> Self {
        Self {
            bytes: self.bytes.clone(),
            fields: self.fields,
            _counted: Box::new(()),
        }
    }

    /// Returns the same image, whose bytes are counted until `counted` is dropped.
    #[must_use]
    pub fn counted(self, counted: impl Send + Sync + 'static) -> Self {
        Self {
            _counted: Box::new(counted),
            ..self
        }
    }

    #[must_use]
    pub fn source(&self) -> Source<'_> {
        let Fields {
            format,
            width,
            height,
            stride,
            color,
            range,
            max_tokens: _,
        } = self.fields;
        Source {
            bytes: &self.bytes,
            format,
            width,
            height,
            stride,
            color,
            range,
        }
    }
}

/// The same bytes and fields, whoever sent them.
impl PartialEq for Received {
    fn eq(&self, other: &Self) -> bool {
        self.fields == other.fields && self.bytes == other.bytes
    }
}

impl Eq for Received {}

/// Its bytes are left out.
impl Debug for Received {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let bytes = self.bytes.len();
        write!(formatter, "Received({bytes} bytes, {:?})", self.fields)
    }
}

/// An image in the files of sessions. Names must not change.
#[derive(Serialize, Deserialize)]
struct Stored {
    /// The bytes in base64.
    data: String,
    format: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    width: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    height: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stride: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    color: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    range: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
}

impl Serialize for Received {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Fields {
            format,
            width,
            height,
            stride,
            color,
            range,
            max_tokens,
        } = self.fields;
        let stored = Stored {
            data: STANDARD.encode(&*self.bytes),
            format: format.name().to_owned(),
            width,
            height,
            stride,
            color: color.map(|color| color.name().to_owned()),
            range: range.map(|range| range.name().to_owned()),
            max_tokens,
        };
        stored.serialize(serializer)
    }
}

/// Its bytes are not counted: `counted` does that.
impl<'de> Deserialize<'de> for Received {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let stored = Stored::deserialize(deserializer)?;
        let wrong = <D::Error as serde::de::Error>::custom::<String>;
        let bytes = STANDARD.decode(stored.data);
        let bytes = bytes.map_err(|error| wrong(error.to_string()))?;
        let fields = Fields {
            format: named(&stored.format).map_err(wrong)?,
            width: stored.width,
            height: stored.height,
            stride: stored.stride,
            color: stored
                .color
                .as_deref()
                .map(named)
                .transpose()
                .map_err(wrong)?,
            range: stored
                .range
                .as_deref()
                .map(named)
                .transpose()
                .map_err(wrong)?,
            max_tokens: stored.max_tokens,
        };
        Ok(Self::new(bytes.into(), fields, ()))
    }
}

fn named<T: Choice>(name: &str) -> Result<T, String> {
    T::named(name).ok_or_else(|| format!("unknown name {name:?} of an image"))
}
