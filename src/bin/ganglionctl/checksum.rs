//! SHA-256 of a file, and the one that is recorded beside it: `FILE.sha256`, as sha256sum writes it.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nix::fcntl::OFlag;
use sha2::{Digest as _, Sha256};

/// Bytes that are read at a time.
const PIECE: usize = 1 << 20;

/// How the name of a file ends that records one.
pub(crate) const RECORDED: &str = ".sha256";

/// Bytes of a file that records one, at most.
const RECORD: u64 = 4096;

/// A digest in lower-case hexadecimal.
pub(crate) fn hexadecimal(digest: &[u8]) -> String {
    let digits = digest.iter().map(|byte| format!("{byte:02x}"));
    digits.collect()
}

/// The SHA-256 of what `file` still holds.
pub(crate) fn of(file: &mut File) -> io::Result<String> {
    Ok(hexadecimal(&digest(file)?.0.finalize()))
}

/// The same, to go on with, and how many bytes that were.
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

/// `name`, and what ends it.
pub(crate) fn beside(name: &OsStr, ending: &str) -> OsString {
    let mut name = name.to_owned();
    name.push(ending);
    name
}

/// The one that is recorded of `file`, if one is.
pub(crate) fn recorded(file: &Path) -> Option<String> {
    in_record(open(beside(file.as_os_str(), RECORDED).as_ref()).ok()?)
}

/// The one that sha256sum has written.
pub(crate) fn in_record(record: File) -> Option<String> {
    let mut text = String::new();
    record.take(RECORD).read_to_string(&mut text).ok()?;
    parse(text.split_whitespace().next()?)
}

/// A regular file: what else lies in a folder of somebody else's may never end.
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
