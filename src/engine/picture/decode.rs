//! From the bytes of an image to what a tower reads.

use super::pictures::UNLIMITED;
use crate::vision::{ImageError, Pixels, Plan, Processor, Received, Stop};

/// Decodes an image, and returns its patches by its plan. This can take long: `stop` is asked often.
///
/// # Errors
/// If the image is damaged, or `stop` has returned true. The limits were checked when it was received.
pub(crate) fn pixels(
    received: &Received,
    processor: &Processor,
    plan: &Plan,
    stop: Stop<'_>,
) -> Result<Pixels, ImageError> {
    let image = received.source().open(&UNLIMITED)?.decode(stop)?;
    processor.pixels(&image, plan, stop)
}
