//! The structure of a JPEG file: its segments are counted and bounded before a decoder sees them.
//!
//! The decoder gets a file with the segments that pixels depend on, and no others. Profiles, thumbnails and comments stay
//! here. A file without Huffman tables gets the usual ones: cameras leave them out of the frames of a video.

use std::ops::Range;

use super::super::error::ImageError;
use super::super::source::Format;
use super::orientation::Orientation;

/// The most scans of a progressive file. Encoders write about ten. Each costs a pass over all coefficients.
pub(super) const MOST_SCANS: usize = 32;
/// The most segments of a file, and bytes of those that are decoded. Tables are a few hundred bytes.
const MOST_SEGMENTS: usize = 4096;
const MOST_BYTES_OF_TABLES: usize = 64 << 10;

const FORMAT: Format = Format::Jpeg;

/// The usual Huffman tables (ITU-T T.81, tables K.3 to K.6), as a segment.
const USUAL_TABLES: &[u8] = &[
    0xff, 0xc4, 0x01, 0xa2, 0x00, 0x00, 0x01, 0x05, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a,
    0x0b, 0x01, 0x00, 0x03, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x10, 0x00,
    0x02, 0x01, 0x03, 0x03, 0x02, 0x04, 0x03, 0x05, 0x05, 0x04, 0x04, 0x00, 0x00, 0x01, 0x7d, 0x01,
    0x02, 0x03, 0x00, 0x04, 0x11, 0x05, 0x12, 0x21, 0x31, 0x41, 0x06, 0x13, 0x51, 0x61, 0x07, 0x22,
    0x71, 0x14, 0x32, 0x81, 0x91, 0xa1, 0x08, 0x23, 0x42, 0xb1, 0xc1, 0x15, 0x52, 0xd1, 0xf0, 0x24,
    0x33, 0x62, 0x72, 0x82, 0x09, 0x0a, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x25, 0x26, 0x27, 0x28, 0x29,
    0x2a, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0x4a,
    0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6a,
    0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a,
    0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8,
    0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6,
    0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda, 0xe1, 0xe2, 0xe3,
    0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9,
    0xfa, 0x11, 0x00, 0x02, 0x01, 0x02, 0x04, 0x04, 0x03, 0x04, 0x07, 0x05, 0x04, 0x04, 0x00, 0x01,
    0x02, 0x77, 0x00, 0x01, 0x02, 0x03, 0x11, 0x04, 0x05, 0x21, 0x31, 0x06, 0x12, 0x41, 0x51, 0x07,
    0x61, 0x71, 0x13, 0x22, 0x32, 0x81, 0x08, 0x14, 0x42, 0x91, 0xa1, 0xb1, 0xc1, 0x09, 0x23, 0x33,
    0x52, 0xf0, 0x15, 0x62, 0x72, 0xd1, 0x0a, 0x16, 0x24, 0x34, 0xe1, 0x25, 0xf1, 0x17, 0x18, 0x19,
    0x1a, 0x26, 0x27, 0x28, 0x29, 0x2a, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x43, 0x44, 0x45, 0x46,
    0x47, 0x48, 0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x63, 0x64, 0x65, 0x66,
    0x67, 0x68, 0x69, 0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x82, 0x83, 0x84, 0x85,
    0x86, 0x87, 0x88, 0x89, 0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0xa2, 0xa3,
    0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba,
    0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8,
    0xd9, 0xda, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6,
    0xf7, 0xf8, 0xf9, 0xfa,
];

/// The frame header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) is_progressive: bool,
    /// How many samples each component has in a unit of the file, horizontally and vertically.
    pub(super) sampling: Vec<(u8, u8)>,
}

/// The segments of a file.
#[derive(Clone)]
pub(super) struct Segments<'a> {
    bytes: &'a [u8],
    /// Segments and scans that pixels depend on.
    needed: Vec<Range<usize>>,
    pub(super) frame: Frame,
    pub(super) scans: usize,
    pub(super) orientation: Orientation,
    has_huffman_tables: bool,
}

impl<'a> Segments<'a> {
    /// Reads the structure, up to the end of the image. What follows it is ignored.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, ImageError> {
        let mut reader = Reader {
            bytes,
            at: 2,
            segments: 0,
        };
        let (mut needed, mut tables) = (Vec::new(), 0);
        let (mut frame, mut scans, mut has_huffman_tables) = (None, 0, false);
        let mut orientation = Orientation::default();
        loop {
            let marker = reader.marker()?;
            let start = reader.at - 2;
            if marker == END {
                break;
            }
            let content = reader.segment()?;
            match marker {
                0xc0..=0xc2 if frame.is_none() => frame = Some(Frame::read(marker, content)?),
                0xc0..=0xc2 => return Err(malformed("it has two frames")),
                0xc4 => has_huffman_tables = true,
                0xdb | 0xdd => {}
                0xda => {
                    let frame: &Frame =
                        frame.as_ref().ok_or_else(|| malformed("it has no frame"))?;
                    scans += 1;
                    let limit = if frame.is_progressive {
                        MOST_SCANS
                    } else {
                        frame.sampling.len()
                    };
                    if scans > limit {
                        let (format, parts) = (FORMAT, "scans");
                        return Err(ImageError::TooManyParts {
                            format,
                            parts,
                            limit,
                        });
                    }
                }
                // Adobe's segment says what the components are.
                0xee if content.starts_with(b"Adobe") => {}
                0xe1 if content.starts_with(b"Exif\0\0") => {
                    orientation = Orientation::of_exif(content);
                    continue;
                }
                0xc3 | 0xc5..=0xcf | 0xdc | 0xde | 0xdf => return Err(unsupported(marker)),
                _ => continue,
            }
            tables += reader.at - start;
            if tables > MOST_BYTES_OF_TABLES {
                let (parts, limit) = ("bytes of tables", MOST_BYTES_OF_TABLES);
                return Err(ImageError::TooManyParts {
                    format: FORMAT,
                    parts,
                    limit,
                });
            }
            if marker == 0xda {
                reader.skip_scan();
            }
            needed.push(start..reader.at);
        }
        let frame = frame
            .filter(|_| scans > 0)
            .ok_or_else(|| malformed("it has no image"))?;
        Ok(Self {
            bytes,
            needed,
            frame,
            scans,
            orientation,
            has_huffman_tables,
        })
    }

    /// Returns a file with the needed segments alone.
    pub(super) fn file(&self) -> Vec<u8> {
        let length: usize = self.needed.iter().map(Range::len).sum();
        let mut file = Vec::with_capacity(length + USUAL_TABLES.len() + 4);
        file.extend([0xff, START]);
        if !self.has_huffman_tables {
            file.extend(USUAL_TABLES);
        }
        for range in &self.needed {
            file.extend(&self.bytes[range.clone()]);
        }
        file.extend([0xff, END]);
        file
    }
}

const START: u8 = 0xd8;
const END: u8 = 0xd9;

impl Frame {
    fn read(marker: u8, content: &[u8]) -> Result<Self, ImageError> {
        const PROGRESSIVE: u8 = 0xc2;
        let [precision, height @ .., count] = content.first_chunk::<6>().ok_or_else(cut_short)?;
        let [high, low, left, right] = *height;
        if *precision != 8 {
            let feature = "a precision of more than 8 bits";
            return Err(ImageError::Unsupported {
                format: FORMAT,
                feature,
            });
        }
        let height = u16::from_be_bytes([high, low]);
        if height == 0 {
            return Err(unsupported(0xdc));
        }
        let components = content[6..].as_chunks::<3>().0;
        if usize::from(*count) != components.len() || ![1, 3, 4].contains(count) {
            return Err(malformed(format!("it has {count} components")));
        }
        let sampling = components
            .iter()
            .map(|[_, sampling, _]| (sampling >> 4, sampling & 15));
        let sampling: Vec<_> = sampling.collect();
        let is_usual = |factor: &u8| (1..=4).contains(factor);
        if !sampling
            .iter()
            .all(|(across, down)| is_usual(across) && is_usual(down))
        {
            return Err(malformed("its sampling factors are not 1 to 4"));
        }
        Ok(Self {
            width: u16::from_be_bytes([left, right]).into(),
            height: height.into(),
            is_progressive: marker == PROGRESSIVE,
            sampling,
        })
    }
}

fn malformed(problem: impl std::fmt::Display) -> ImageError {
    ImageError::malformed(FORMAT, problem)
}

fn cut_short() -> ImageError {
    malformed("a segment is too short")
}

fn unsupported(marker: u8) -> ImageError {
    let feature = match marker {
        0xc3 => "lossless coding",
        0xc9..=0xcc => "arithmetic coding",
        0xdc => "a height that follows the pixels",
        _ => "hierarchical coding",
    };
    ImageError::Unsupported {
        format: FORMAT,
        feature,
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    segments: usize,
}

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Result<u8, ImageError> {
        let bytes = self.bytes.len();
        let byte = self.bytes.get(self.at).ok_or(ImageError::Truncated {
            format: FORMAT,
            bytes,
        })?;
        self.at += 1;
        Ok(*byte)
    }

    /// Returns the next marker. Bytes before it, and restarts without a scan, belong to nothing.
    fn marker(&mut self) -> Result<u8, ImageError> {
        loop {
            while self.byte()? != 0xff {}
            let mut marker = 0xff;
            while marker == 0xff {
                marker = self.byte()?;
            }
            match marker {
                0x00 | 0x01 | 0xd0..=START => {}
                marker => return Ok(marker),
            }
        }
    }

    /// Returns the content of a segment.
    fn segment(&mut self) -> Result<&'a [u8], ImageError> {
        self.segments += 1;
        if self.segments > MOST_SEGMENTS {
            let (parts, limit) = ("segments", MOST_SEGMENTS);
            return Err(ImageError::TooManyParts {
                format: FORMAT,
                parts,
                limit,
            });
        }
        let length = u16::from_be_bytes([self.byte()?, self.byte()?]);
        let length = usize::from(length).checked_sub(2).ok_or_else(cut_short)?;
        let bytes = self.bytes.len();
        let content = self.bytes.get(self.at..self.at + length);
        let content = content.ok_or(ImageError::Truncated {
            format: FORMAT,
            bytes,
        })?;
        self.at += length;
        Ok(content)
    }

    /// Skips the data of a scan, up to a marker that is no restart.
    fn skip_scan(&mut self) {
        loop {
            let rest = &self.bytes[self.at..];
            let Some(found) = rest.iter().position(|byte| *byte == 0xff) else {
                self.at = self.bytes.len();
                return;
            };
            match rest.get(found + 1) {
                Some(0x00 | 0xd0..=0xd7) => self.at += found + 2,
                Some(0xff) => self.at += found + 1,
                _ => {
                    self.at += found;
                    return;
                }
            }
        }
    }
}
