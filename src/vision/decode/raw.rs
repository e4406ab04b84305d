//! Raw pixels, as cameras and programs have them in memory.

use super::super::error::ImageError;
use super::super::limits::Limits;
use super::super::rgb::RgbImage;
use super::super::source::{Format, Source};
use super::super::stop::{self, Stop};
use super::yuv::Matrix;

/// A frame whose fields were checked.
#[derive(Clone)]
pub(super) struct Raw<'a> {
    bytes: &'a [u8],
    format: Format,
    width: u32,
    height: u32,
    stride: usize,
    /// For luma and chroma only.
    matrix: Option<Matrix>,
}

impl<'a> Raw<'a> {
    pub(super) fn open(source: &Source<'a>, limits: &Limits) -> Result<Self, ImageError> {
        const PAGE: u64 = 4096;
        let Source { bytes, format, .. } = *source;
        let missing = |field| ImageError::Missing { format, field };
        let width = source.width.ok_or_else(|| missing("width"))?;
        let height = source.height.ok_or_else(|| missing("height"))?;
        limits.check_size(width, height)?;
        let matrix = match (source.color, source.range) {
            (Some(color), Some(range)) if format.is_yuv() => Some(Matrix::new(color, range)),
            (None, _) if format.is_yuv() => return Err(missing("color")),
            (_, None) if format.is_yuv() => return Err(missing("range")),
            (None, None) => None,
            (color, _) => {
                let field = if color.is_some() { "color" } else { "range" };
                return Err(ImageError::Unneeded { format, field });
            }
        };
        let row = row_bytes(format, width);
        let stride = source.stride.map_or(row, u64::from);
        let shown = u32::try_from(stride).unwrap_or(u32::MAX);
        if stride < row {
            let (stride, needed) = (shown, row);
            return Err(ImageError::Stride {
                format,
                width,
                stride,
                needed,
            });
        }
        let rows = match format {
            Format::Nv12 => height + height.div_ceil(2),
            _ => height,
        };
        // The last row needs no padding.
        let needed = stride * u64::from(rows - 1) + row;
        let (has, stride) = (bytes.len() as u64, shown);
        let bytes_given = bytes.len();
        if has < needed {
            return Err(ImageError::TooShort {
                format,
                bytes: bytes_given,
                width,
                height,
                stride,
                needed,
            });
        }
        // Drivers round frames up. More than that is another size than the caller says.
        if has > needed + (needed / 8).max(PAGE) {
            return Err(ImageError::TooLong {
                format,
                bytes: bytes_given,
                width,
                height,
                stride,
                needed,
            });
        }
        let stride = stride as usize;
        Ok(Self {
            bytes,
            format,
            width,
            height,
            stride,
            matrix,
        })
    }

    pub(super) const fn size(&self) -> (u32, u32) {
        (self.width, self.height)
    }

    pub(super) fn decode(&self, stop: Stop<'_>) -> Result<RgbImage, ImageError> {
        let mut bytes = vec![0; RgbImage::bytes_of(self.width, self.height)];
        let rows = bytes.chunks_exact_mut(self.width as usize * 3);
        for (number, to) in rows.enumerate() {
            stop::check(stop)?;
            let to = to.as_chunks_mut().0;
            let row = &self.bytes[number * self.stride..];
            match (self.format, &self.matrix) {
                (Format::Nv12, Some(matrix)) => {
                    let chroma = self.height as usize + number / 2;
                    matrix.nv12(row, &self.bytes[chroma * self.stride..], to);
                }
                (Format::Yuyv, Some(matrix)) => matrix.yuyv(row, to),
                (Format::Gray8, _) => {
                    let pixels = to.iter_mut().zip(row);
                    pixels.for_each(|(pixel, grey)| *pixel = [*grey; 3]);
                }
                (Format::Bgr24, _) => {
                    let pixels = to.iter_mut().zip(row.as_chunks().0);
                    pixels.for_each(|(pixel, [blue, green, red])| *pixel = [*red, *green, *blue]);
                }
                _ => {
                    let to = to.as_flattened_mut();
                    to.copy_from_slice(&row[..to.len()]);
                }
            }
        }
        Ok(RgbImage::new(self.width, self.height, bytes))
    }
}

/// The bytes of a row without padding. Two pixels share a chroma pair, so a last single pixel has one too.
fn row_bytes(format: Format, width: u32) -> u64 {
    let width = u64::from(width);
    match format {
        Format::Gray8 => width,
        Format::Nv12 => width.next_multiple_of(2),
        Format::Yuyv => width.next_multiple_of(2) * 2,
        _ => width * 3,
    }
}
