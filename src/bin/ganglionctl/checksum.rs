//! SHA-256 of a file, and the one that is recorded beside it: `FILE.sha256`, as sha256sum writes it.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// Bytes that are read at a time.
const PIECE: usize = 1 << 20;

/// In lower-case hexadecimal.
pub(crate) fn hexadecimal(digest: &[u8]) -> String {
    digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Of what `file` holds.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn of(file: &Path) -> io::Result<String> {
    let (mut file, mut digest) = (File::open(file)?, Sha256::new());
    let mut piece = vec![0; PIECE];
    loop {
        let read = file.read(&mut piece)?;
        if read == 0 {
            return Ok(hexadecimal(&digest.finalize()));
        }
        digest.update(&piece[..read]);
    }
}

/// Where the one of `file` is recorded.
pub(crate) fn beside(file: &Path) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(".sha256");
    name.into()
}

/// The one that is recorded of `file`, if one is.
pub(crate) fn recorded(file: &Path) -> Option<String> {
    let text = fs::read_to_string(beside(file)).ok()?;
    parse(text.split_whitespace().next()?)
}

/// A SHA-256 as people type it.
pub(crate) fn parse(text: &str) -> Option<String> {
    let is_one = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_one.then(|| text.to_ascii_lowercase())
}
