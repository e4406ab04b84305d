//! The limits of an image, which are checked before memory is allocated for its pixels.

use super::error::ImageError;

/// The most pixels of a side, in every format.
pub(super) const LONGEST_SIDE: u32 = 65_535;

/// The limits of one image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Pixels of the image as received.
    pub max_pixels: u64,
    /// Bytes of the image as received.
    pub max_bytes: usize,
}

impl Limits {
    /// The default number of pixels: a camera with 16 megapixels.
    pub const USUAL_PIXELS: u64 = 16 << 20;

    /// Returns the limits for images of at most `max_pixels`. Raw pixels with padded rows stay below the limit of bytes.
    #[must_use]
    pub fn of_pixels(max_pixels: u64) -> Self {
        const LEAST: u64 = 1 << 20;
        let max_bytes = max_pixels.saturating_mul(4).max(LEAST);
        Self {
            max_pixels,
            max_bytes: usize::try_from(max_bytes).unwrap_or(usize::MAX),
        }
    }

    /// Returns the most bytes that an image within these limits takes as received and decoded.
    #[must_use]
    pub fn memory(&self) -> u64 {
        const COLORS: u64 = 3;
        self.max_bytes as u64 + self.max_pixels.saturating_mul(COLORS)
    }

    pub(super) fn check_bytes(&self, bytes: usize) -> Result<(), ImageError> {
        match bytes {
            0 => Err(ImageError::Empty),
            _ if bytes > self.max_bytes => Err(ImageError::TooManyBytes {
                bytes,
                limit: self.max_bytes,
            }),
            _ => Ok(()),
        }
    }

    pub(super) fn check_size(&self, width: u32, height: u32) -> Result<(), ImageError> {
        let is_allowed = |side| (1..=LONGEST_SIDE).contains(&side);
        if u64::from(width) * u64::from(height) > self.max_pixels {
            let limit = self.max_pixels;
            return Err(ImageError::TooManyPixels {
                width,
                height,
                limit,
            });
        }
        if !is_allowed(width) || !is_allowed(height) {
            let limit = LONGEST_SIDE;
            return Err(ImageError::Sides {
                width,
                height,
                limit,
            });
        }
        Ok(())
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::of_pixels(Self::USUAL_PIXELS)
    }
}
