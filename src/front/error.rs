//! Reasons why a request is refused before the engine queues it, or by the engine.

use super::image_error::ImageError;
use super::options::{Allowed, MOST_OPTIONS};
use crate::engine::Refusal;

/// Why a request is refused.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Option(#[from] OptionError),
    /// The messages, or a text of the call, cannot be used.
    #[error("{0}")]
    Messages(String),
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// An image of a message cannot be used.
    #[error("message {message}: part {part}: {error}")]
    Image {
        message: usize,
        part: usize,
        error: ImageError,
    },
    #[error(
        "the call has {images} images; at most {limit} are taken in one: send fewer, or raise vision.max_images"
    )]
    TooManyImages { images: usize, limit: usize },
    #[error(
        "the images of this call, or earlier ones of the same user, could not be read within 10 s; send memfds, or files on a local disk"
    )]
    SlowImages,
    #[error("the images could not be read ({0}); try again later")]
    ReaderFailed(String),
    #[error("the system has no random numbers ({0}); give a seed")]
    NoRandomness(String),
}

/// Why the options of a request cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OptionError {
    #[error("unknown option {name:?}; known are {}", .known.join(", "))]
    Unknown {
        name: String,
        known: Vec<&'static str>,
    },
    #[error("there are more than {MOST_OPTIONS} options; known are {}", .known.join(", "))]
    TooMany { known: Vec<&'static str> },
    /// The value has a wrong type or is out of range.
    #[error("option {name:?} is {given}; allowed is {}", .allowed.describe(""))]
    Value {
        name: String,
        /// The value, or its type, as [`GivenOption::describe`](super::GivenOption::describe) returns it.
        given: String,
        allowed: Allowed,
    },
    /// The value cannot be used together with other options, with the configuration, or by this user.
    #[error("{why}")]
    Unusable { option: &'static str, why: String },
}

impl OptionError {
    /// Returns the name of the option; `None` if no single option is at fault.
    #[must_use]
    pub fn option(&self) -> Option<&str> {
        match self {
            Self::Unknown { name, .. } | Self::Value { name, .. } => Some(name),
            Self::Unusable { option, .. } => Some(option),
            Self::TooMany { .. } => None,
        }
    }
}
