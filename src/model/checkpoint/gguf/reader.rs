//! Reads the head of a file without trust: every length is checked against the remaining bytes and against real models
//! before memory is allocated for it.

use std::fs::File;
use std::io::{BufReader, Read};

use crate::model::error::Defect;

/// The longest key that the format allows.
pub(super) const LONGEST_KEY: u64 = u16::MAX as u64;
/// The names of tensors: real ones have fewer than 64 bytes.
pub(super) const LONGEST_NAME: u64 = 256;
/// Longer than any token or merge that a tokenizer accepts.
pub(super) const LONGEST_TOKEN: u64 = 64 << 10;
/// Texts in use; chat templates are far shorter.
pub(super) const LONGEST_VALUE: u64 = 1 << 20;
/// The largest vocabularies have 262,144 tokens and twice as many merges.
pub(super) const MOST_ITEMS: u64 = 1 << 20;
/// The metadata of the largest vocabularies take some 30 MB.
const LONGEST_HEAD: u64 = 64 << 20;

/// A file's first bytes, read in order.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    input: BufReader<&'a File>,
    position: u64,
    end: u64,
}

impl<'a> Reader<'a> {
    pub(super) fn new(file: &'a File, file_len: u64) -> Self {
        Self {
            input: BufReader::with_capacity(64 << 10, file),
            position: 0,
            end: file_len.min(LONGEST_HEAD),
        }
    }

    /// Returns the bytes read or skipped so far.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    fn advance(&mut self, bytes: u64, what: &str) -> Result<(), Defect> {
        let left = self.end - self.position;
        if bytes > left {
            let position = self.position;
            return Err(self.cut(format!(
                "{what} at byte {position} needs {bytes} bytes, and {left} are left"
            )));
        }
        self.position += bytes;
        Ok(())
    }

    /// Returns the error for missing bytes: the file ends, or its head exceeds the limit.
    fn cut(&self, problem: String) -> Defect {
        if self.end < LONGEST_HEAD {
            return Defect::Malformed(problem);
        }
        let allowed = format!("a head of at most {LONGEST_HEAD} bytes is supported");
        Defect::bad_value("GGUF head", problem, allowed)
    }

    /// Reads the next `N` bytes; `what` names them in errors.
    pub(super) fn bytes<const N: usize>(&mut self, what: &str) -> Result<[u8; N], Defect> {
        self.advance(N as u64, what)?;
        let mut bytes = [0; N];
        self.input.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32, Defect> {
        self.bytes(what).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, what: &str) -> Result<u64, Defect> {
        self.bytes(what).map(u64::from_le_bytes)
    }

    /// Reads a count of items that each take at least `least` of the remaining bytes, at most `most`.
    pub(super) fn count(&mut self, what: &str, least: u64, most: u64) -> Result<usize, Defect> {
        let count = self.u64(what)?;
        let left = self.end - self.position;
        if count > most {
            return Err(Defect::Malformed(format!(
                "{what} is {count}, and {most} are allowed"
            )));
        }
        usize::try_from(count)
            .ok()
            .filter(|_| count.checked_mul(least).is_some_and(|bytes| bytes <= left))
            .ok_or_else(|| self.cut(format!("{what} is {count}, and {left} bytes are left")))
    }

    /// Reads a text of at most `longest` bytes.
    pub(super) fn string(&mut self, what: &str, longest: u64) -> Result<String, Defect> {
        let length = self.length(what)?;
        if length > longest {
            return Err(Defect::Malformed(format!(
                "{what} is {length} bytes long, and {longest} are allowed"
            )));
        }
        let bytes = self.text(what, length)?;
        String::from_utf8(bytes).map_err(|_| Defect::Malformed(format!("{what} is not UTF-8")))
    }

    pub(super) fn skip_string(&mut self, what: &str) -> Result<(), Defect> {
        let length = self.length(what)?;
        self.skip(length, what)
    }

    /// Reads the length of the text that follows.
    pub(super) fn length(&mut self, what: &str) -> Result<u64, Defect> {
        self.count(what, 1, u64::MAX).map(|length| length as u64)
    }

    /// Reads the next `length` bytes, which are known to exist.
    pub(super) fn text(&mut self, what: &str, length: u64) -> Result<Vec<u8>, Defect> {
        self.advance(length, what)?;
        let mut bytes = vec![0; usize::try_from(length).map_err(std::io::Error::other)?];
        self.input.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    pub(super) fn skip(&mut self, bytes: u64, what: &str) -> Result<(), Defect> {
        self.advance(bytes, what)?;
        let bytes = i64::try_from(bytes).map_err(std::io::Error::other)?;
        Ok(self.input.seek_relative(bytes)?)
    }
}
