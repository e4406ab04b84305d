//! An image whose header was read.

use std::fmt::{self, Debug, Formatter};

use super::super::error::ImageError;
use super::super::limits::Limits;
use super::super::rgb::RgbImage;
use super::super::source::{Format, Source};
use super::super::stop::Stop;
use super::jpeg::Jpeg;
use super::orientation::Orientation;
use super::png::Png;
use super::raw::Raw;
use super::webp::WebP;

/// An image whose header and limits were checked, and that has no pixels yet.
#[derive(Clone)]
pub struct Opened<'a> {
    source: Source<'a>,
    width: u32,
    height: u32,
    orientation: Orientation,
    kind: Kind<'a>,
}

#[derive(Clone)]
enum Kind<'a> {
    Jpeg(Jpeg<'a>),
    Png(Png<'a>),
    WebP(WebP<'a>),
    Raw(Raw<'a>),
}

impl<'a> Source<'a> {
    /// Reads the header of the image. It allocates no memory for pixels.
    ///
    /// # Errors
    /// Returns an error if a limit is exceeded, or if the bytes or the fields describe no image that can be decoded.
    pub fn open(&self, limits: &Limits) -> Result<Opened<'a>, ImageError> {
        limits.check_bytes(self.bytes.len())?;
        let format = match self.format {
            Format::Auto => self.sniff()?,
            format => format,
        };
        let source = Source { format, ..*self };
        let (size, orientation, kind) = match format {
            Format::Jpeg | Format::Png | Format::WebP => {
                source.check_is_file()?;
                source.open_file()?
            }
            _ => {
                let raw = Raw::open(&source, limits)?;
                (raw.size(), Orientation::default(), Kind::Raw(raw))
            }
        };
        limits.check_size(size.0, size.1)?;
        let (width, height) = orientation.size(size);
        Ok(Opened {
            source,
            width,
            height,
            orientation,
            kind,
        })
    }

    fn open_file(&self) -> Result<((u32, u32), Orientation, Kind<'a>), ImageError> {
        Ok(match self.format {
            Format::Jpeg => {
                let jpeg = Jpeg::open(self.bytes)?;
                (jpeg.size(), jpeg.orientation(), Kind::Jpeg(jpeg))
            }
            Format::Png => {
                let png = Png::open(self.bytes)?;
                (png.size(), png.orientation(), Kind::Png(png))
            }
            _ => {
                let webp = WebP::open(self.bytes)?;
                (webp.size(), webp.orientation(), Kind::WebP(webp))
            }
        })
    }

    /// Checks that the bytes start like a file of the named format, and that no field of raw pixels is given.
    fn check_is_file(&self) -> Result<(), ImageError> {
        let format = self.format;
        if self.sniff() != Ok(format) {
            let start = self.start();
            return Err(ImageError::OtherFormat { format, start });
        }
        let fields = [
            ("width", self.width.is_some()),
            ("height", self.height.is_some()),
            ("stride", self.stride.is_some()),
            ("color", self.color.is_some()),
            ("range", self.range.is_some()),
        ];
        match fields.into_iter().find(|(_, is_given)| *is_given) {
            Some((field, _)) => Err(ImageError::Unneeded { format, field }),
            None => Ok(()),
        }
    }

    fn sniff(&self) -> Result<Format, ImageError> {
        match self.bytes {
            [0xff, 0xd8, 0xff, ..] => Ok(Format::Jpeg),
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Ok(Format::Png),
            [
                b'R',
                b'I',
                b'F',
                b'F',
                _,
                _,
                _,
                _,
                b'W',
                b'E',
                b'B',
                b'P',
                ..,
            ] => Ok(Format::WebP),
            _ => Err(ImageError::UnknownFormat {
                start: self.start(),
            }),
        }
    }

    /// The first bytes, for a message.
    fn start(&self) -> String {
        const SHOWN: usize = 8;
        let bytes = self.bytes.iter().take(SHOWN);
        let bytes: Vec<_> = bytes.map(|byte| format!("{byte:02x}")).collect();
        bytes.join(" ")
    }
}

impl<'a> Opened<'a> {
    /// Pixels of a row, as the image is shown: a turned photograph is upright.
    #[must_use]
    pub const fn width(&self) -> u32 {
        self.width
    }

    /// The number of rows, as the image is shown.
    #[must_use]
    pub const fn height(&self) -> u32 {
        self.height
    }

    /// The bytes and what was said of them, with the format that was found.
    #[must_use]
    pub const fn source(&self) -> &Source<'a> {
        &self.source
    }

    /// Returns the most bytes that `decode` allocates, its result included.
    #[must_use]
    pub fn memory(&self) -> u64 {
        let result = RgbImage::bytes_of(self.width, self.height) as u64;
        let decoded = match &self.kind {
            Kind::Jpeg(jpeg) => jpeg.memory(),
            Kind::Png(png) => png.memory(),
            Kind::WebP(webp) => webp.memory(),
            Kind::Raw(_) => 0,
        };
        let turned = if self.orientation == Orientation::default() {
            0
        } else {
            result
        };
        result + decoded.max(turned)
    }

    /// Decodes the image: transparent pixels are composed on white, and a photograph is turned upright.
    ///
    /// # Errors
    /// Returns an error if the file is damaged or cut off, and `Cancelled` soon after `stop` has returned true.
    pub fn decode(&self, stop: Stop<'_>) -> Result<RgbImage, ImageError> {
        let image = match &self.kind {
            Kind::Jpeg(jpeg) => jpeg.decode(stop),
            Kind::Png(png) => png.decode(stop),
            Kind::WebP(webp) => webp.decode(stop),
            Kind::Raw(raw) => raw.decode(stop),
        }?;
        Ok(self.orientation.apply(image))
    }
}

/// Its bytes are left out.
impl Debug for Opened<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Self {
            source,
            width,
            height,
            ..
        } = self;
        write!(formatter, "Opened({width} x {height}, {source:?})")
    }
}
