//! The bytes of a file for the decoder of a library. The file ends early when a request is cancelled.

use std::cell::Cell;
use std::io::{self, BufRead, Read, Seek, SeekFrom};

use super::super::error::ImageError;
use super::super::stop::Stop;

/// Bytes between two questions whether to stop.
const BLOCK: usize = 4096;

/// Whether a reader has ended early. It outlives the decoder, which owns the reader.
#[derive(Debug, Default)]
pub(super) struct Stopped(Cell<bool>);

impl Stopped {
    /// Asks `stop`, and remembers that it returned true.
    pub(super) fn ask(&self, stop: Stop<'_>) -> bool {
        if stop() {
            self.0.set(true);
        }
        self.0.get()
    }

    /// Returns `Cancelled` if the reader has ended early, whatever the decoder made of it.
    pub(super) fn check(&self) -> Result<(), ImageError> {
        if self.0.get() {
            Err(ImageError::Cancelled)
        } else {
            Ok(())
        }
    }
}

/// A file in memory, read in blocks.
#[derive(Clone)]
pub(super) struct Blocks<'a> {
    bytes: &'a [u8],
    at: usize,
    stop: Stop<'a>,
    stopped: &'a Stopped,
}

impl<'a> Blocks<'a> {
    pub(super) fn new(bytes: &'a [u8], stop: Stop<'a>, stopped: &'a Stopped) -> Self {
        Self {
            bytes,
            at: 0,
            stop,
            stopped,
        }
    }
}

impl Read for Blocks<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let block = self.fill_buf()?;
        let count = block.len().min(to.len());
        to[..count].copy_from_slice(&block[..count]);
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Blocks<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.stopped.ask(self.stop) {
            return Ok(&[]);
        }
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        Ok(&rest[..rest.len().min(BLOCK)])
    }

    fn consume(&mut self, count: usize) {
        self.at += count;
    }
}

impl Seek for Blocks<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (from, by) = match to {
            SeekFrom::Start(at) => (0, i64::try_from(at).unwrap_or(i64::MAX)),
            SeekFrom::End(by) => (self.bytes.len(), by),
            SeekFrom::Current(by) => (self.at, by),
        };
        let by = usize::try_from(by.unsigned_abs()).map(|size| (by < 0, size));
        let at = match by {
            Ok((true, size)) => from.checked_sub(size),
            Ok((false, size)) => from.checked_add(size),
            Err(_) => None,
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at as u64)
    }
}
