//! Pixels in memory.

use std::fmt::{self, Debug, Formatter};

/// An image of 8-bit red, green and blue: rows from top to bottom, without padding.
#[derive(Clone, PartialEq, Eq)]
pub struct RgbImage {
    width: u32,
    height: u32,
    bytes: Vec<u8>,
}

impl RgbImage {
    /// Returns the image with these bytes: `height` rows of `width` pixels of three bytes.
    ///
    /// # Panics
    /// Panics if the number of bytes is another.
    #[must_use]
    pub fn new(width: u32, height: u32, bytes: Vec<u8>) -> Self {
        assert_eq!(
            bytes.len(),
            Self::bytes_of(width, height),
            "bytes of an image"
        );
        Self {
            width,
            height,
            bytes,
        }
    }

    /// The number of bytes of an image.
    pub(super) const fn bytes_of(width: u32, height: u32) -> usize {
        width as usize * height as usize * 3
    }

    /// Pixels of a row.
    #[must_use]
    pub const fn width(&self) -> u32 {
        self.width
    }

    /// The number of rows.
    #[must_use]
    pub const fn height(&self) -> u32 {
        self.height
    }

    /// All pixels.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the pixels of a row from column `from` on.
    pub(super) fn row(&self, row: u32, from: u32) -> &[[u8; 3]] {
        let start = (row as usize * self.width as usize + from as usize) * 3;
        let end = (row as usize + 1) * self.width as usize * 3;
        self.bytes[start..end].as_chunks().0
    }
}

/// Its pixels are left out.
impl Debug for RgbImage {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "RgbImage({} x {})", self.width, self.height)
    }
}
