//! The question whether the work on an image is still wanted.

use super::error::ImageError;

/// Returns whether a request was cancelled. It is asked between rows of pixels, so it must be cheap.
pub type Stop<'a> = &'a dyn Fn() -> bool;

pub(super) fn check(stop: Stop<'_>) -> Result<(), ImageError> {
    if stop() {
        Err(ImageError::Cancelled)
    } else {
        Ok(())
    }
}
