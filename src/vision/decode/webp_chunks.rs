//! The structure of a WebP file: its chunks, and the sizes that they claim.

use std::ops::Range;

use super::super::error::ImageError;
use super::super::source::Format;
use super::orientation::Orientation;

const FORMAT: Format = Format::WebP;

/// The chunks of a still image.
#[derive(Clone, Debug)]
pub(super) struct Chunks {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) orientation: Orientation,
    /// Whether the pixels have a channel of transparency.
    pub(super) has_alpha: bool,
    /// Whether a header of features comes first. It is right about transparency then.
    is_extended: bool,
    /// Where a lossless image, or a lossless channel of transparency, starts; and whether it has a header.
    pub(super) lossless: Vec<(Range<usize>, bool)>,
    /// The end of the image. What follows it is ignored.
    pub(super) end: usize,
}

impl Chunks {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, ImageError> {
        const HEADER: usize = 12;
        let truncated = || ImageError::Truncated {
            format: FORMAT,
            bytes: bytes.len(),
        };
        let length = bytes.get(4..).and_then(<[u8]>::first_chunk);
        let length = length
            .map(|length| u32::from_le_bytes(*length))
            .ok_or_else(truncated)?;
        let end = usize::try_from(length)
            .ok()
            .and_then(|length| length.checked_add(8));
        let end = end
            .filter(|end| *end <= bytes.len())
            .ok_or_else(truncated)?;
        let mut reader = Reader {
            bytes: &bytes[..end],
            at: HEADER,
        };
        let (name, content) = reader.chunk().ok_or_else(truncated)?;
        let mut chunks = Self {
            width: 0,
            height: 0,
            orientation: Orientation::default(),
            has_alpha: false,
            is_extended: name == *b"VP8X",
            lossless: Vec::new(),
            end,
        };
        match &name {
            b"VP8X" => chunks.extended(&bytes[content], &mut reader)?,
            b"VP8 " | b"VP8L" => {
                (chunks.width, chunks.height) = chunks.image(name, bytes, content)?;
            }
            _ => return Err(malformed("it starts with an unknown chunk")),
        }
        Ok(chunks)
    }

    /// Reads the chunks after a header of features.
    fn extended(&mut self, header: &[u8], reader: &mut Reader<'_>) -> Result<(), ImageError> {
        const ALPHA: u8 = 0x10;
        const ANIMATION: u8 = 0x02;
        let [features, _, _, _, sides @ ..] = header.first_chunk::<10>().ok_or_else(too_short)?;
        let side = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]) + 1;
        (self.width, self.height) = (side(&sides[..3]), side(&sides[3..]));
        if features & ANIMATION != 0 {
            return Err(ImageError::Animated { format: FORMAT });
        }
        self.has_alpha = features & ALPHA != 0;
        let (mut has_image, mut has_alpha) = (false, false);
        while let Some((name, content)) = reader.chunk() {
            match &name {
                b"ANIM" | b"ANMF" => return Err(ImageError::Animated { format: FORMAT }),
                b"VP8 " | b"VP8L" if has_image => return Err(malformed("it has two images")),
                b"VP8 " | b"VP8L" => {
                    has_image = true;
                    if self.image(name, reader.bytes, content)? != (self.width, self.height) {
                        return Err(malformed("its image has another size than its header says"));
                    }
                }
                b"ALPH" if !has_alpha => {
                    const IS_LOSSLESS: u8 = 1;
                    has_alpha = true;
                    let coding = reader.bytes[content.clone()]
                        .first()
                        .ok_or_else(too_short)?;
                    if coding & 3 == IS_LOSSLESS {
                        self.lossless.push((content.start + 1..content.end, false));
                    }
                }
                b"EXIF" => self.orientation = Orientation::of_exif(&reader.bytes[content]),
                _ => {}
            }
        }
        if has_image {
            Ok(())
        } else {
            let bytes = reader.bytes.len();
            Err(ImageError::Truncated {
                format: FORMAT,
                bytes,
            })
        }
    }

    /// Returns the size of an image.
    fn image(
        &mut self,
        name: [u8; 4],
        bytes: &[u8],
        content: Range<usize>,
    ) -> Result<(u32, u32), ImageError> {
        /// The sides of a lossy image, whose upper bits ask for a larger display, and of a lossless one.
        const SIDE: u32 = 0x3fff;
        let image = &bytes[content.clone()];
        if name == *b"VP8 " {
            let [_, _, _, 0x9d, 0x01, 0x2a, size @ ..] =
                image.first_chunk::<10>().ok_or_else(too_short)?
            else {
                return Err(malformed("its image has no header"));
            };
            let [left, right, high, low] = size.map(u32::from);
            return Ok(((left | right << 8) & SIDE, (high | low << 8) & SIDE));
        }
        let [0x2f, header @ ..] = image.first_chunk::<5>().ok_or_else(too_short)? else {
            return Err(malformed("its image has no header"));
        };
        let header = u32::from_le_bytes(*header);
        if !self.is_extended {
            self.has_alpha = header >> 28 & 1 != 0;
        }
        self.lossless.push((content, true));
        Ok(((header & SIDE) + 1, (header >> 14 & SIDE) + 1))
    }
}

pub(super) fn malformed(problem: impl std::fmt::Display) -> ImageError {
    ImageError::malformed(FORMAT, problem)
}

fn too_short() -> ImageError {
    malformed("a chunk is too short")
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    /// Returns the next chunk's name and the place of its content.
    fn chunk(&mut self) -> Option<([u8; 4], Range<usize>)> {
        let (name, rest) = self.bytes.get(self.at..)?.split_first_chunk()?;
        let length = u32::from_le_bytes(*rest.first_chunk()?);
        let start = self.at + 8;
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        self.bytes.get(start..end)?;
        // Chunks start at even positions.
        self.at = end + end % 2;
        Some((*name, start..end))
    }
}
