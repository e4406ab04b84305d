//! From the bytes of an image to what a tower reads.

use crate::vision::{ImageError, Limits, Pixels, Plan, Processor, Received, Stop};

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
    let limits = Limits {
        max_pixels: u64::MAX,
        max_bytes: usize::MAX,
    };
    let image = received.source().open(&limits)?.decode(stop)?;
    processor.pixels(&image, plan, stop)
}
