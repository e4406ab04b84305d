//! JPEG, by the library zune-jpeg: pure Rust, and fast enough to decode a camera's video frame in a few milliseconds.

use zune_jpeg::JpegDecoder;
use zune_jpeg::errors::DecodeErrors;
use zune_jpeg::zune_core::bytestream::{ZByteIoError, ZByteReaderTrait, ZSeekFrom};
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::super::error::ImageError;
use super::super::limits::LONGEST_SIDE;
use super::super::rgb::RgbImage;
use super::super::source::Format;
use super::super::stop::Stop;
use super::guard;
use super::jpeg_segments::{MOST_SCANS, Segments};
use super::orientation::Orientation;
use super::reader::Stopped;

/// A JPEG file whose structure was read.
#[derive(Clone)]
pub(super) struct Jpeg<'a>(Segments<'a>);

impl<'a> Jpeg<'a> {
    pub(super) fn open(bytes: &'a [u8]) -> Result<Self, ImageError> {
        Segments::read(bytes).map(Self)
    }

    pub(super) const fn size(&self) -> (u32, u32) {
        (self.0.frame.width, self.0.frame.height)
    }

    pub(super) const fn orientation(&self) -> Orientation {
        self.0.orientation
    }

    /// Bytes besides the result: coefficients where several scans make up the image, and rows of them otherwise.
    pub(super) fn memory(&self) -> u64 {
        /// Bytes of a coefficient, and samples of a block's side.
        const COEFFICIENT: u64 = 2;
        const BLOCK: u32 = 8;
        /// Rows of the decoder.
        const ROWS: u64 = 64;
        let frame = &self.0.frame;
        let most = |side: fn(&(u8, u8)) -> u8| frame.sampling.iter().map(side).max().unwrap_or(1);
        let (most_across, most_down) = (most(|one| one.0), most(|one| one.1));
        let units = |side: u32, most: u8| u64::from(side.div_ceil(BLOCK * u32::from(most)));
        let units_of_row = units(frame.width, most_across);
        let samples = frame.sampling.iter().map(|(across, down)| {
            units_of_row * u64::from(*across) * u64::from(*down) * u64::from(BLOCK * BLOCK)
        });
        let row_of_units = samples.sum::<u64>() * COEFFICIENT;
        let rows = if frame.is_progressive || self.0.scans > 1 {
            units(frame.height, most_down)
        } else {
            0
        };
        row_of_units * (rows + ROWS)
    }

    pub(super) fn decode(&self, stop: Stop<'_>) -> Result<RgbImage, ImageError> {
        let stopped = Stopped::default();
        let file = self.0.file();
        let file = File {
            bytes: &file,
            at: 0,
            ask_at: 0,
            stop,
            stopped: &stopped,
        };
        let side = LONGEST_SIDE as usize;
        // Strict: a frame that misses pixels is refused rather than shown with grey ones.
        let options = DecoderOptions::default()
            .set_max_width(side)
            .set_max_height(side)
            .jpeg_set_max_scans(MOST_SCANS)
            .jpeg_set_out_colorspace(ColorSpace::RGB)
            .set_strict_mode(true);
        let bytes = guard::run(|| JpegDecoder::new_with_options(file, options).decode());
        stopped.check()?;
        let malformed =
            |problem: &dyn std::fmt::Display| ImageError::malformed(Format::Jpeg, problem);
        let bytes = bytes.ok_or_else(|| malformed(&"it cannot be decoded"))?;
        let bytes = bytes.map_err(|error| malformed(&problem(&error)))?;
        let (width, height) = self.size();
        if bytes.len() != RgbImage::bytes_of(width, height) {
            return Err(malformed(&"it has another size than its header says"));
        }
        Ok(RgbImage::new(width, height, bytes))
    }
}

fn problem(error: &DecodeErrors) -> String {
    match error {
        DecodeErrors::ExhaustedData | DecodeErrors::IoErrors(_) => {
            "its pixels end too early".to_owned()
        }
        error => format!("{error:?}"),
    }
}

/// A file in memory. It is asked for a few bytes at a time.
struct File<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The position at which the next question whether to stop is due.
    ask_at: usize,
    stop: Stop<'a>,
    stopped: &'a Stopped,
}

impl File<'_> {
    /// Ends the file if the request was cancelled.
    #[cold]
    fn ask(&mut self) {
        const BLOCK: usize = 16 << 10;
        if self.stopped.ask(self.stop) {
            self.bytes = &self.bytes[..self.bytes.len().min(self.at)];
        }
        self.ask_at = self.at + BLOCK;
    }

    fn rest(&self) -> &[u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }
}

impl ZByteReaderTrait for File<'_> {
    #[inline(always)]
    fn read_byte_no_error(&mut self) -> u8 {
        let byte = self.bytes.get(self.at).copied();
        self.at += usize::from(byte.is_some());
        byte.unwrap_or(0)
    }

    #[inline(always)]
    fn read_exact_bytes(&mut self, to: &mut [u8]) -> Result<(), ZByteIoError> {
        /// The bytes of each read of a scan. Others read headers, and a scan may have nearly no bytes.
        const OF_SCAN: usize = 4;
        if to.len() != OF_SCAN || self.at >= self.ask_at {
            self.ask();
        }
        self.peek_exact_bytes(to)?;
        self.at += to.len();
        Ok(())
    }

    fn read_bytes(&mut self, to: &mut [u8]) -> Result<usize, ZByteIoError> {
        let count = self.peek_bytes(to)?;
        self.at += count;
        Ok(count)
    }

    fn peek_bytes(&mut self, to: &mut [u8]) -> Result<usize, ZByteIoError> {
        let count = self.rest().len().min(to.len());
        to[..count].copy_from_slice(&self.rest()[..count]);
        Ok(count)
    }

    #[inline(always)]
    fn peek_exact_bytes(&mut self, to: &mut [u8]) -> Result<(), ZByteIoError> {
        let rest = self.rest();
        match rest.get(..to.len()) {
            Some(bytes) => to.copy_from_slice(bytes),
            None => return Err(ZByteIoError::NotEnoughBytes(rest.len(), to.len())),
        }
        Ok(())
    }

    fn z_seek(&mut self, to: ZSeekFrom) -> Result<u64, ZByteIoError> {
        let at = match to {
            ZSeekFrom::Start(at) => usize::try_from(at).ok(),
            ZSeekFrom::End(by) => isize::try_from(by)
                .ok()
                .and_then(|by| self.bytes.len().checked_add_signed(by)),
            ZSeekFrom::Current(by) => isize::try_from(by)
                .ok()
                .and_then(|by| self.at.checked_add_signed(by)),
        };
        self.at = at.ok_or(ZByteIoError::SeekError("before the start"))?;
        Ok(self.at as u64)
    }

    #[inline(always)]
    fn is_eof(&mut self) -> Result<bool, ZByteIoError> {
        Ok(self.at >= self.bytes.len())
    }

    fn z_position(&mut self) -> Result<u64, ZByteIoError> {
        Ok(self.at as u64)
    }

    fn read_remaining(&mut self, to: &mut Vec<u8>) -> Result<usize, ZByteIoError> {
        let count = self.rest().len();
        to.extend_from_slice(self.rest());
        self.at = self.bytes.len();
        Ok(count)
    }
}
