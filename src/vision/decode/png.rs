//! PNG, by the library png: pure Rust without unsafe code, row by row.

use std::io::Cursor;

use png::{
    BitDepth, ColorType, Decoder, DecodingError, InterlaceInfo, Limits, Reader, Transformations,
};

use super::super::error::ImageError;
use super::super::rgb::RgbImage;
use super::super::source::Format;
use super::super::stop::{self, Stop};
use super::alpha;
use super::guard;
use super::orientation::Orientation;

const FORMAT: Format = Format::Png;

/// A PNG file whose header was read.
#[derive(Clone)]
pub(super) struct Png<'a> {
    bytes: &'a [u8],
    width: u32,
    height: u32,
    is_interlaced: bool,
    orientation: Orientation,
}

impl<'a> Png<'a> {
    /// Reads the chunks before the pixels.
    pub(super) fn open(bytes: &'a [u8]) -> Result<Self, ImageError> {
        const SIGNATURE: usize = 8;
        let truncated = || ImageError::Truncated {
            format: FORMAT,
            bytes: bytes.len(),
        };
        let mut rest = &bytes[SIGNATURE..];
        let (name, header) = chunk(&mut rest).ok_or_else(truncated)?;
        let Some([width @ .., a, b, c, d, _, _, _, _, interlace]) = header.first_chunk::<13>()
        else {
            return Err(ImageError::malformed(FORMAT, "its header is too short"));
        };
        if name != *b"IHDR" {
            return Err(ImageError::malformed(FORMAT, "it has no header"));
        }
        let mut orientation = Orientation::default();
        loop {
            // The start of a chunk of pixels is enough.
            match rest.get(4..8) {
                Some(b"IDAT") => break,
                Some(b"acTL" | b"fcTL") => return Err(ImageError::Animated { format: FORMAT }),
                _ => {}
            }
            let (name, content) = chunk(&mut rest).ok_or_else(truncated)?;
            if name == *b"eXIf" {
                orientation = Orientation::of_exif(content);
            }
        }
        Ok(Self {
            bytes,
            width: u32::from_be_bytes(*width),
            height: u32::from_be_bytes([*a, *b, *c, *d]),
            is_interlaced: *interlace != 0,
            orientation,
        })
    }

    pub(super) const fn size(&self) -> (u32, u32) {
        (self.width, self.height)
    }

    pub(super) const fn orientation(&self) -> Orientation {
        self.orientation
    }

    /// Bytes besides the result: pixels with transparency, and those of the library.
    pub(super) fn memory(&self) -> u64 {
        const CHANNELS: u64 = 4;
        u64::from(self.width) * u64::from(self.height) * CHANNELS + LIBRARY as u64
    }

    pub(super) fn decode(&self, stop: Stop<'_>) -> Result<RgbImage, ImageError> {
        let result = guard::run(|| self.pixels(stop));
        let result = result.ok_or_else(|| ImageError::malformed(FORMAT, "it cannot be decoded"))?;
        let (bytes, color) = result?;
        let bytes = match color {
            ColorType::Rgb => bytes,
            ColorType::Rgba => alpha::rgba(&bytes),
            ColorType::GrayscaleAlpha => alpha::grey_alpha(&bytes),
            ColorType::Grayscale | ColorType::Indexed => alpha::grey(&bytes),
        };
        Ok(RgbImage::new(self.width, self.height, bytes))
    }

    /// Returns the pixels, 8 bits a channel, and their channels.
    fn pixels(&self, stop: Stop<'_>) -> Result<(Vec<u8>, ColorType), ImageError> {
        let limits = Limits { bytes: LIBRARY };
        let mut decoder = Decoder::new_with_limits(Cursor::new(self.bytes), limits);
        decoder.set_transformations(Transformations::normalize_to_color8());
        decoder.set_ignore_text_chunk(true);
        decoder.set_ignore_iccp_chunk(true);
        let mut reader = decoder.read_info().map_err(|error| self.error(&error))?;
        let (color, depth) = reader.output_color_type();
        let size = reader.output_buffer_size();
        let length = reader.output_line_size(self.width);
        let (Some(size), Some(length), BitDepth::Eight) = (size, length, depth) else {
            return Err(ImageError::malformed(FORMAT, "its rows are too long"));
        };
        let mut bytes = vec![0; size];
        if self.is_interlaced {
            self.interlaced(&mut reader, &mut bytes, length, stop)?;
        } else {
            for row in bytes.chunks_exact_mut(length) {
                stop::check(stop)?;
                reader.read_row(row).map_err(|error| self.error(&error))?;
            }
        }
        Ok((bytes, color))
    }

    fn interlaced(
        &self,
        reader: &mut Reader<Cursor<&[u8]>>,
        to: &mut [u8],
        length: usize,
        stop: Stop<'_>,
    ) -> Result<(), ImageError> {
        let bits = length / self.width as usize * 8;
        let bits = u8::try_from(bits).expect("at most four channels");
        let mut row = vec![0; length];
        // Reading on behind the last row would decompress whatever follows it.
        for _ in 0..rows_of_passes(self.width, self.height) {
            stop::check(stop)?;
            let read = reader
                .read_row(&mut row)
                .map_err(|error| self.error(&error))?;
            if let Some(InterlaceInfo::Adam7(pass)) = &read {
                png::expand_interlaced_row(to, length, &row, pass, bits);
            }
        }
        Ok(())
    }

    fn error(&self, error: &DecodingError) -> ImageError {
        match error {
            DecodingError::IoError(_) => {
                let bytes = self.bytes.len();
                ImageError::Truncated {
                    format: FORMAT,
                    bytes,
                }
            }
            error => ImageError::malformed(FORMAT, error),
        }
    }
}

/// The most bytes of the library's own buffers: a few rows and a window.
const LIBRARY: usize = 8 << 20;

/// Removes the first chunk. Returns its name and content.
fn chunk<'a>(rest: &mut &'a [u8]) -> Option<([u8; 4], &'a [u8])> {
    const CHECKSUM: usize = 4;
    let (length, after) = rest.split_first_chunk()?;
    let (name, after) = after.split_first_chunk()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let content = after.get(..length)?;
    *rest = after.get(length.checked_add(CHECKSUM)?..)?;
    Some((*name, content))
}

/// The number of rows of all passes of an interlaced image.
fn rows_of_passes(width: u32, height: u32) -> u32 {
    /// First column and row of each pass, and the distances to the next.
    const PASSES: [[u32; 4]; 7] = [
        [0, 0, 8, 8],
        [4, 0, 8, 8],
        [0, 4, 4, 8],
        [2, 0, 4, 4],
        [0, 2, 2, 4],
        [1, 0, 2, 2],
        [0, 1, 1, 2],
    ];
    let has_pixels = |[column, ..]: &[u32; 4]| *column < width;
    let rows = |[_, row, _, distance]: [u32; 4]| height.saturating_sub(row).div_ceil(distance);
    PASSES.into_iter().filter(has_pixels).map(rows).sum()
}
