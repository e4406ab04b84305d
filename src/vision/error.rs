//! Why an image is refused.

use super::source::Format;
use crate::choice::Choice as _;

/// The reason why an image cannot be shown to a model. Messages name the value and the remedy, and quote no pixels.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    #[error(
        "the image has no bytes; send a whole file or frame, and write a memfd before you send it"
    )]
    Empty,
    #[error(
        "the image has {bytes} bytes, and at most {limit} are allowed; send a smaller image, or raise vision.max_pixels"
    )]
    TooManyBytes { bytes: usize, limit: usize },
    #[error(
        "the image has {width} x {height} pixels, and at most {limit} are allowed; scale it down, or raise vision.max_pixels"
    )]
    TooManyPixels { width: u32, height: u32, limit: u64 },
    #[error("the image has {width} x {height} pixels; each side must have 1 to {limit}")]
    Sides { width: u32, height: u32, limit: u32 },
    /// The first bytes are those of no known format.
    #[error(
        "the image starts with {start}, and is no JPEG, PNG or WebP file; name the format of raw pixels: rgb24, bgr24, gray8, nv12, yuyv"
    )]
    UnknownFormat { start: String },
    /// The bytes are of another format than the caller named.
    #[error("the image is no {} file: it starts with {start}; use format = \"auto\", or name its format", .format.name())]
    OtherFormat { format: Format, start: String },
    #[error("an image of format {} needs `{field}`; add it", .format.name())]
    Missing { format: Format, field: &'static str },
    #[error("an image of format {} has no `{field}`; leave it out", .format.name())]
    Unneeded { format: Format, field: &'static str },
    #[error("stride = {stride}: a row of {width} pixels of {} has {needed} bytes or more", .format.name())]
    Stride {
        format: Format,
        width: u32,
        stride: u32,
        needed: u64,
    },
    #[error("the image has {bytes} bytes, and {width} x {height} pixels of {} with stride {stride} need {needed}; send the whole frame, or correct width, height, stride or format", .format.name())]
    TooShort {
        format: Format,
        bytes: usize,
        width: u32,
        height: u32,
        stride: u32,
        needed: u64,
    },
    #[error("the image has {bytes} bytes, and {width} x {height} pixels of {} with stride {stride} need only {needed}; correct width, height, stride or format", .format.name())]
    TooLong {
        format: Format,
        bytes: usize,
        width: u32,
        height: u32,
        stride: u32,
        needed: u64,
    },
    #[error("the {} file ends too early, after {bytes} bytes; send all of it", .format.name())]
    Truncated { format: Format, bytes: usize },
    #[error("the {} file is damaged: {problem}; save it again", .format.name())]
    Malformed { format: Format, problem: String },
    #[error("{feature} in a {} file is not supported; save the image as a plain JPEG or PNG file", .format.name())]
    Unsupported {
        format: Format,
        feature: &'static str,
    },
    #[error("the {} file is animated; send one frame of it as a still image", .format.name())]
    Animated { format: Format },
    /// Decoding would take much longer than the pixels deserve.
    #[error("the {} file has more than {limit} {parts}; save it again", .format.name())]
    TooManyParts {
        format: Format,
        parts: &'static str,
        limit: usize,
    },
    #[error(
        "the image has {width} x {height} pixels, and this model takes sides of at most {limit} to 1; crop it"
    )]
    TooLongAndThin { width: u32, height: u32, limit: u32 },
    #[error(
        "the image takes at least {needed} tokens of this model, and at most {allowed} are allowed; raise max_tokens and vision.max_tokens"
    )]
    TooManyTokens { needed: u64, allowed: u64 },
    #[error("the request was cancelled while its image was prepared")]
    Cancelled,
}

impl ImageError {
    /// A damaged file. Text of a library is bounded, and has no control characters.
    pub(super) fn malformed(format: Format, problem: impl std::fmt::Display) -> Self {
        const LONGEST: usize = 160;
        let problem = problem.to_string();
        let problem = problem.chars().take(LONGEST);
        let problem = problem.map(|one| if one.is_control() { ' ' } else { one });
        let problem = problem
            .collect::<String>()
            .trim_end_matches(['.', ' '])
            .to_owned();
        Self::Malformed { format, problem }
    }
}
