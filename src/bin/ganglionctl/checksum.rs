//! SHA-256 of a file, and the one that is recorded beside it: `FILE.sha256`, as sha256sum writes it.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use sha2::{Digest as _, Sha256};

/// Bytes that are read at a time.
const PIECE: usize = 1 << 20;

/// Bytes of a file that records one, at most.
const RECORD: u64 = 4096;

/// In lower-case hexadecimal.
pub(crate) fn hexadecimal(digest: &[u8]) -> String {
    digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Of what `file` still holds.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn of(file: &mut File) -> io::Result<String> {
    let mut digest = Sha256::new();
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
    in_record(open(&beside(file)).ok()?)
}

/// The one that sha256sum has written.
pub(crate) fn in_record(record: File) -> Option<String> {
    let mut text = String::new();
    record.take(RECORD).read_to_string(&mut text).ok()?;
    parse(text.split_whitespace().next()?)
}

/// A regular file: what else lies in a folder of somebody else's may never end.
///
/// # Errors
/// If it cannot be read, or is another kind of thing.
pub(crate) fn open(file: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OFlag::O_NONBLOCK.bits());
    let file = options.open(file)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    Ok(file)
}

/// A SHA-256 as people type it.
pub(crate) fn parse(text: &str) -> Option<String> {
    let is_one = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_one.then(|| text.to_ascii_lowercase())
}
