//! The SHA-256 of a file, and the recorded one in `FILE.sha256`, in the format of sha256sum.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nix::fcntl::OFlag;
use sha2::{Digest as _, Sha256};

/// Bytes of one read.
const PIECE: usize = 1 << 20;

/// The suffix of a file with a recorded checksum.
pub(crate) const RECORDED: &str = ".sha256";

/// The most bytes of a file with a recorded checksum.
const RECORD: u64 = 4096;

/// Formats a digest in lower-case hexadecimal.
pub(crate) fn hexadecimal(digest: &[u8]) -> String {
    let digits = digest.iter().map(|byte| format!("{byte:02x}"));
    digits.collect()
}

/// Returns the SHA-256 of the unread part of `file`.
pub(crate) fn of(file: &mut File) -> io::Result<String> {
    Ok(hexadecimal(&digest(file)?.0.finalize()))
}

/// Hashes the unread part of `file`; returns the hasher, which can continue, and the number of bytes.
pub(crate) fn digest(file: &mut File) -> io::Result<(Sha256, u64)> {
    let (mut digest, mut length) = (Sha256::new(), 0);
    let mut piece = vec![0; PIECE];
    loop {
        let read = file.read(&mut piece)?;
        if read == 0 {
            return Ok((digest, length));
        }
        digest.update(&piece[..read]);
        length += read as u64;
    }
}

/// Appends `ending` to `name`.
pub(crate) fn with_suffix(name: &OsStr, ending: &str) -> OsString {
    let mut name = name.to_owned();
    name.push(ending);
    name
}

/// Returns the recorded checksum of `file`, if there is one.
pub(crate) fn recorded(file: &Path) -> Option<String> {
    in_record(open(with_suffix(file.as_os_str(), RECORDED).as_ref()).ok()?)
}

/// Parses a checksum that sha256sum has written.
pub(crate) fn in_record(record: File) -> Option<String> {
    let mut text = String::new();
    record.take(RECORD).read_to_string(&mut text).ok()?;
    parse(text.split_whitespace().next()?)
}

/// Opens a regular file. Reading another kind of file in a foreign folder might never end.
pub(crate) fn open(file: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OFlag::O_NONBLOCK.bits());
    let file = options.open(file)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok(file)
}

/// Parses a SHA-256 from the command line.
pub(crate) fn parse(text: &str) -> Option<String> {
    let is_one = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_one.then(|| text.to_ascii_lowercase())
}
