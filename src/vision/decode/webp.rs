//! WebP, by the library image-webp: pure Rust without unsafe code.

use image_webp::{DecodingError, WebPDecoder};

use super::super::error::ImageError;
use super::super::rgb::RgbImage;
use super::super::source::Format;
use super::super::stop::Stop;
use super::alpha;
use super::guard;
use super::orientation::Orientation;
use super::reader::{Blocks, Stopped};
use super::webp_chunks::{Chunks, malformed};
use super::webp_tables;

/// A WebP file whose structure was read.
#[derive(Clone)]
pub(super) struct WebP<'a> {
    bytes: &'a [u8],
    chunks: Chunks,
}

impl<'a> WebP<'a> {
    pub(super) fn open(bytes: &'a [u8]) -> Result<Self, ImageError> {
        let chunks = Chunks::read(bytes)?;
        let bytes = &bytes[..chunks.end];
        Ok(Self { bytes, chunks })
    }

    pub(super) const fn size(&self) -> (u32, u32) {
        (self.chunks.width, self.chunks.height)
    }

    pub(super) const fn orientation(&self) -> Orientation {
        self.chunks.orientation
    }

    /// Bytes besides the result: planes or pixels with transparency, twice; and the tables of a lossless image, or a part of
    /// a lossy one, whose memory is allocated before the part is found to be shorter.
    pub(super) fn memory(&self) -> u64 {
        const OF_PIXEL: u64 = 10;
        /// The sizes of parts have 24 bits.
        const PART: u64 = 1 << 24;
        let pixels = u64::from(self.chunks.width) * u64::from(self.chunks.height);
        let lossless = &self.chunks.lossless;
        let tables = lossless.len() as u64 * webp_tables::MOST_BYTES;
        let is_lossless = lossless.iter().any(|(_, has_header)| *has_header);
        let part = if is_lossless { 0 } else { PART };
        pixels * OF_PIXEL + tables + part + self.bytes.len() as u64
    }

    pub(super) fn decode(&self, stop: Stop<'_>) -> Result<RgbImage, ImageError> {
        let (width, height) = self.size();
        for (range, has_header) in &self.chunks.lossless {
            webp_tables::check(
                &self.bytes[range.clone()],
                (width, height),
                *has_header,
                stop,
            )?;
        }
        let stopped = Stopped::default();
        let bytes = guard::run(|| self.pixels(&Blocks::new(self.bytes, stop, &stopped)));
        stopped.check()?;
        let bytes = bytes.ok_or_else(|| malformed("it cannot be decoded"))?;
        let bytes = bytes.map_err(|error| match error {
            DecodingError::IoError(_) => {
                let bytes = self.bytes.len();
                ImageError::Truncated {
                    format: Format::WebP,
                    bytes,
                }
            }
            error => malformed(error),
        })?;
        let bytes = if self.chunks.has_alpha {
            alpha::rgba(&bytes)
        } else {
            bytes
        };
        if bytes.len() != RgbImage::bytes_of(width, height) {
            return Err(malformed("it has another size than its header says"));
        }
        Ok(RgbImage::new(width, height, bytes))
    }

    fn pixels(&self, file: &Blocks<'_>) -> Result<Vec<u8>, DecodingError> {
        let mut decoder = WebPDecoder::new(file.clone())?;
        if decoder.has_alpha() != self.chunks.has_alpha {
            return Err(DecodingError::InconsistentImageSizes);
        }
        let size = decoder
            .output_buffer_size()
            .ok_or(DecodingError::ImageTooLarge)?;
        let mut bytes = vec![0; size];
        decoder.read_image(&mut bytes)?;
        Ok(bytes)
    }
}
