//! How a camera was held: the orientation of Exif, and the image turned upright.

use super::super::rgb::RgbImage;

/// The place of the first row and column, numbered from 1 as Exif does: 1 is upright.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Orientation(u8);

impl Default for Orientation {
    fn default() -> Self {
        Self(1)
    }
}

impl Orientation {
    /// Reads it from the bytes of a TIFF header and its first directory. What has none, or a damaged one, is upright.
    pub(super) fn of_exif(bytes: &[u8]) -> Self {
        Self::find(bytes).unwrap_or_default()
    }

    fn find(bytes: &[u8]) -> Option<Self> {
        const TAG: u16 = 0x0112;
        const SHORT: u16 = 3;
        const ENTRY: usize = 12;
        let bytes = bytes.strip_prefix(b"Exif\0\0").unwrap_or(bytes);
        let is_big = match bytes.get(..4)? {
            b"MM\0*" => true,
            b"II*\0" => false,
            _ => return None,
        };
        let short = |at: usize| {
            let two = *bytes.get(at..)?.first_chunk()?;
            Some(if is_big {
                u16::from_be_bytes(two)
            } else {
                u16::from_le_bytes(two)
            })
        };
        let four = *bytes.get(4..)?.first_chunk()?;
        let directory = if is_big {
            u32::from_be_bytes(four)
        } else {
            u32::from_le_bytes(four)
        };
        let directory = usize::try_from(directory).ok()?;
        let count = short(directory)?;
        let mut entries =
            (0..usize::from(count)).map(|entry| directory.checked_add(2 + entry * ENTRY));
        let entry = entries.find_map(|entry| entry.filter(|entry| short(*entry) == Some(TAG)))?;
        let value = short(entry + 8).filter(|_| short(entry + 2) == Some(SHORT))?;
        let value = u8::try_from(value).ok()?;
        (1..=8).contains(&value).then_some(Self(value))
    }

    /// Whether rows become columns.
    const fn is_turned(self) -> bool {
        self.0 >= 5
    }

    /// Returns the width and height of the upright image.
    pub(super) const fn size(self, (width, height): (u32, u32)) -> (u32, u32) {
        if self.is_turned() {
            (height, width)
        } else {
            (width, height)
        }
    }

    /// Returns the image upright.
    pub(super) fn apply(self, image: RgbImage) -> RgbImage {
        if self == Self::default() {
            return image;
        }
        let (width, height) = self.size((image.width(), image.height()));
        let mut bytes = Vec::with_capacity(image.bytes().len());
        let (last_column, last_row) = (image.width() - 1, image.height() - 1);
        for y in 0..height {
            for x in 0..width {
                // The column and the row of the stored image.
                let (column, row) = match self.0 {
                    2 => (last_column - x, y),
                    3 => (last_column - x, last_row - y),
                    4 => (x, last_row - y),
                    5 => (y, x),
                    6 => (y, last_row - x),
                    7 => (last_column - y, last_row - x),
                    8 => (last_column - y, x),
                    _ => (x, y),
                };
                bytes.extend(image.row(row, column)[0]);
            }
        }
        RgbImage::new(width, height, bytes)
    }
}
