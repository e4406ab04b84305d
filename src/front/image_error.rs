//! Why an image of a call is refused.

use super::image_file::FileError;
use crate::vision;

/// Why an image cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Image(#[from] vision::ImageError),
    #[error("its \"max_tokens\" is {given}; it must be from 1 to {limit} (vision.max_tokens)")]
    MaxTokens { given: u32, limit: u32 },
}
