//! An image as received, kept as long as a conversation shows it.

use std::fmt::{self, Debug, Formatter};

use super::source::{Color, ColorRange, Format, Source};

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
    bytes: Box<[u8]>,
    pub fields: Fields,
    /// Dropped with the bytes: it counts them for their user.
    _counted: Box<dyn Send + Sync>,
}

impl Received {
    /// Returns an image whose bytes are counted until `counted` is dropped.
    pub fn new(bytes: Box<[u8]>, fields: Fields, counted: impl Send + Sync + 'static) -> Self {
        Self {
            bytes,
            fields,
            _counted: Box::new(counted),
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
