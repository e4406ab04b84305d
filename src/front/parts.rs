//! The parts of a message, texts and images: builds each from the plain fields of a caller, and checks them one by one.
//!
//! Not here: the bytes behind a descriptor (`image_file`), and the rules between fields, such as a width for raw pixels
//! alone (`vision`).

use std::fmt::{self, Debug, Formatter};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::text::{TEXT_BYTES, shortened};
use crate::choice::Choice;
use crate::vision::Fields;

/// Parts of one message.
pub const PARTS: usize = 1024;
/// Images of one call; `vision.max_images` may allow fewer.
pub const MOST_IMAGES: usize = 64;

/// A part of a message's content.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    Text(String),
    Image(GivenImage),
}

/// An image as a caller gives it. Nothing of it has been read.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenImage {
    pub bytes: ImageBytes,
    pub fields: Fields,
}

/// The place of an image's bytes.
#[derive(Clone)]
pub enum ImageBytes {
    /// A file in memory or on disk; it is read from its start.
    File(Arc<OwnedFd>),
    Data(Arc<[u8]>),
}

/// The value of a field, as a front end decodes it.
#[derive(Debug)]
pub enum PartValue {
    Text(String),
    /// A text that was too long to keep.
    Long,
    /// An integer of any type.
    Whole(i128),
    File(OwnedFd),
    Data(Vec<u8>),
    /// A value of a type that no field has.
    Other,
}

/// Why a part of a message cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartError {
    #[error("unknown field {name:?}; known are {}", PartFields::NAMES.join(", "))]
    Unknown { name: String },
    #[error("its {field:?} is there twice; leave one out")]
    Twice { field: &'static str },
    #[error("its {field:?} is {given}; it must be {allowed}")]
    Value {
        field: &'static str,
        given: String,
        allowed: String,
    },
    #[error(
        "up to its \"text\" the texts have more than {TEXT_BYTES} bytes, which is the most of one call; shorten them"
    )]
    TooLong,
    #[error("it has both {one:?} and {other:?}; give each a part of its own")]
    Both {
        one: &'static str,
        other: &'static str,
    },
    #[error("it has {field:?} and no image; add \"image\" or \"data\", or leave it out")]
    NoImage { field: &'static str },
    #[error("it has no content; add one of \"text\", \"image\" and \"data\"")]
    Empty,
}

/// The fields of a part, while they are being read.
#[derive(Debug, Default)]
pub struct PartFields {
    /// The names of the fields that were read.
    given: Vec<&'static str>,
    text: Option<String>,
    bytes: Option<ImageBytes>,
    fields: Fields,
}

impl PartFields {
    /// The names of all fields; the first three are contents.
    pub const NAMES: [&str; 10] = [
        "text",
        "image",
        "data",
        "format",
        "width",
        "height",
        "stride",
        "color",
        "range",
        "max_tokens",
    ];

    /// Reads a field. `type_name` is the front end's name of the value's type, for errors.
    ///
    /// # Errors
    /// An error names the field and what it must be.
    pub fn read(&mut self, name: &str, value: PartValue, type_name: &str) -> Result<(), PartError> {
        let Some(field) = Self::NAMES.into_iter().find(|known| *known == name) else {
            let name = shortened(name);
            return Err(PartError::Unknown { name });
        };
        if self.given.contains(&field) {
            return Err(PartError::Twice { field });
        }
        self.given.push(field);
        let read = Field {
            name: field,
            value,
            type_name,
        };
        let fields = &mut self.fields;
        match field {
            "text" => self.text = Some(read.text()?),
            "image" | "data" => {
                let contents = ["text", "image", "data"];
                let other = self.given.iter().find(|one| contents.contains(one));
                if let Some(one) = other.filter(|one| **one != field) {
                    return Err(PartError::Both { one, other: field });
                }
                self.bytes = Some(read.bytes()?);
            }
            "format" => fields.format = read.choice()?,
            "width" => fields.width = Some(read.whole()?),
            "height" => fields.height = Some(read.whole()?),
            "stride" => fields.stride = Some(read.whole()?),
            "color" => fields.color = Some(read.choice()?),
            "range" => fields.range = Some(read.choice()?),
            _ => fields.max_tokens = Some(read.whole()?),
        }
        Ok(())
    }

    /// Returns the part with the fields that were read.
    ///
    /// # Errors
    /// An error names the field that is missing, or does not belong to the others.
    pub fn part(self) -> Result<Part, PartError> {
        let of_image = self.given.iter().find(|name| **name != "text");
        match (self.text, self.bytes) {
            (None, Some(bytes)) => Ok(Part::Image(GivenImage {
                bytes,
                fields: self.fields,
            })),
            (Some(_), Some(_)) => {
                let other = of_image.copied().unwrap_or_default();
                Err(PartError::Both { one: "text", other })
            }
            (text, None) => match (text, of_image) {
                (Some(text), None) => Ok(Part::Text(text)),
                (_, Some(field)) => Err(PartError::NoImage { field }),
                (None, None) => Err(PartError::Empty),
            },
        }
    }
}

/// A field with its value.
struct Field<'a> {
    name: &'static str,
    value: PartValue,
    type_name: &'a str,
}

impl Field<'_> {
    fn text(self) -> Result<String, PartError> {
        match self.value {
            PartValue::Text(text) => Ok(text),
            PartValue::Long => Err(PartError::TooLong),
            _ => Err(self.wrong("a text")),
        }
    }

    fn bytes(self) -> Result<ImageBytes, PartError> {
        match (self.name, self.value) {
            ("image", PartValue::File(file)) => Ok(ImageBytes::File(Arc::new(file))),
            ("data", PartValue::Data(bytes)) => Ok(ImageBytes::Data(bytes.into())),
            (name, value) => {
                let allowed = match name {
                    "image" => "a file descriptor",
                    _ => "bytes",
                };
                Err(Self { value, ..self }.wrong(allowed))
            }
        }
    }

    fn whole(self) -> Result<u32, PartError> {
        match self.value {
            PartValue::Whole(number) => match u32::try_from(number) {
                Ok(number) if number > 0 => Ok(number),
                _ => Err(self.wrong("from 1 to 4294967295")),
            },
            _ => Err(self.wrong("a whole number from 1 to 4294967295")),
        }
    }

    fn choice<T: Choice>(self) -> Result<T, PartError> {
        let choice = match &self.value {
            PartValue::Text(name) => T::named(name),
            _ => None,
        };
        choice.ok_or_else(|| {
            let names: Vec<_> = T::ALL.iter().map(|one| one.name()).collect();
            self.wrong(&format!("one of {}", names.join(", ")))
        })
    }

    fn wrong(self, allowed: &str) -> PartError {
        let given = match &self.value {
            PartValue::Text(text) => format!("{:?}", shortened(text)),
            PartValue::Whole(number) => number.to_string(),
            _ => format!("of type {}", shortened(self.type_name)),
        };
        PartError::Value {
            field: self.name,
            given,
            allowed: allowed.to_owned(),
        }
    }
}

impl PartialEq for ImageBytes {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(one), Self::File(other)) => Arc::ptr_eq(one, other),
            (Self::Data(one), Self::Data(other)) => one == other,
            _ => false,
        }
    }
}

/// The bytes are left out.
impl Debug for ImageBytes {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(_) => formatter.write_str("File"),
            Self::Data(bytes) => write!(formatter, "Data({} bytes)", bytes.len()),
        }
    }
}
