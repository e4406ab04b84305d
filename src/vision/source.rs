//! An image as a caller sends it: bytes, and what the caller says of them.

use std::fmt::{self, Debug, Formatter};

use crate::choice::Choice;

/// The format of an image's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// JPEG, PNG or WebP, by the first bytes.
    #[default]
    Auto,
    Jpeg,
    Png,
    WebP,
    /// Rows of red, green, blue.
    Rgb24,
    /// Rows of blue, green, red, as OpenCV has them.
    Bgr24,
    /// Rows of grey.
    Gray8,
    /// Rows of luma; then half as many rows of pairs of chroma, Cb first, each for 2 x 2 pixels. V4L2's NV12.
    Nv12,
    /// Rows of luma, Cb, luma, Cr for two pixels. V4L2's YUYV.
    Yuyv,
}

impl Format {
    pub(super) const fn is_yuv(self) -> bool {
        matches!(self, Self::Nv12 | Self::Yuyv)
    }
}

impl Choice for Format {
    const ALL: &'static [Self] = &[
        Self::Auto,
        Self::Jpeg,
        Self::Png,
        Self::WebP,
        Self::Rgb24,
        Self::Bgr24,
        Self::Gray8,
        Self::Nv12,
        Self::Yuyv,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Jpeg => "jpeg",
            Self::Png => "png",
            Self::WebP => "webp",
            Self::Rgb24 => "rgb24",
            Self::Bgr24 => "bgr24",
            Self::Gray8 => "gray8",
            Self::Nv12 => "nv12",
            Self::Yuyv => "yuyv",
        }
    }
}

/// The matrix between luma and chroma, and red, green and blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Color {
    /// BT.601, of standard-definition cameras and JPEG.
    Bt601,
    /// BT.709, of high-definition cameras.
    Bt709,
}

impl Choice for Color {
    const ALL: &'static [Self] = &[Self::Bt601, Self::Bt709];

    fn name(self) -> &'static str {
        match self {
            Self::Bt601 => "bt601",
            Self::Bt709 => "bt709",
        }
    }
}

/// The values of black and white.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColorRange {
    /// Luma from 16 to 235, chroma from 16 to 240.
    Limited,
    /// 0 to 255.
    Full,
}

impl Choice for ColorRange {
    const ALL: &'static [Self] = &[Self::Limited, Self::Full];

    fn name(self) -> &'static str {
        match self {
            Self::Limited => "limited",
            Self::Full => "full",
        }
    }
}

/// An image as received. The fields after `format` are for raw pixels only.
#[derive(Clone, Copy, Default)]
pub struct Source<'a> {
    pub bytes: &'a [u8],
    pub format: Format,
    /// Pixels of a row.
    pub width: Option<u32>,
    /// The number of rows.
    pub height: Option<u32>,
    /// Bytes from the start of a row to the next; by default rows have no padding.
    pub stride: Option<u32>,
    /// Required for `Nv12` and `Yuyv`.
    pub color: Option<Color>,
    /// Required for `Nv12` and `Yuyv`.
    pub range: Option<ColorRange>,
}

/// Its bytes are left out.
impl Debug for Source<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Self {
            bytes,
            format,
            width,
            height,
            stride,
            color,
            range,
        } = self;
        let fields = (format, width, height, stride, color, range);
        write!(formatter, "Source({} bytes, {fields:?})", bytes.len())
    }
}
