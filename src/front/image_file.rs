//! Reads the file behind a caller's descriptor: a memfd, or a regular file.
//!
//! The bytes are copied with `pread`, sealed or not. Safe code cannot map a file, and a mapped file that shrinks would end
//! the daemon with SIGBUS. A copy of a frame of 1280 x 720 takes less than a millisecond.

use std::os::fd::OwnedFd;

use nix::errno::Errno;
use nix::sys::stat::{SFlag, fstat};
use nix::sys::uio::pread;

use crate::vision::Stop;

/// Bytes of one read; between two of them, the reader checks whether the image is still wanted.
const PIECE: usize = 1 << 20;

/// Why the file of an image could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    #[error("its descriptor is {kind}; send a memfd or a regular file")]
    Kind { kind: &'static str },
    #[error("its descriptor cannot be read ({error}); open the file for reading")]
    Unreadable { error: Errno },
    #[error(
        "its file became shorter while it was read: {read} of {bytes} bytes are left; seal a memfd with F_SEAL_SHRINK and \
         F_SEAL_WRITE, or do not change the file before the call returns"
    )]
    Shrunk { read: usize, bytes: usize },
    #[error("there is no memory for its {bytes} bytes; send a smaller image")]
    NoMemory { bytes: usize },
    #[error("the request was cancelled while its image was read")]
    Cancelled,
}

/// Returns the number of bytes of the file.
///
/// # Errors
/// `Kind` if it is not a regular file or memfd.
pub(super) fn size(file: &OwnedFd) -> Result<usize, FileError> {
    let status = fstat(file).map_err(|error| FileError::Unreadable { error })?;
    let kind = SFlag::from_bits_truncate(status.st_mode) & SFlag::S_IFMT;
    let kind = match kind {
        SFlag::S_IFREG => return Ok(usize::try_from(status.st_size).unwrap_or(usize::MAX)),
        SFlag::S_IFIFO => "a pipe",
        SFlag::S_IFSOCK => "a socket",
        SFlag::S_IFDIR => "a directory",
        SFlag::S_IFCHR | SFlag::S_IFBLK => "a device",
        _ => "not a file",
    };
    Err(FileError::Kind { kind })
}

/// Reads `bytes` bytes from the start of the file.
///
/// # Errors
/// `Shrunk` if the file has fewer, and `Cancelled` soon after `stop` has returned true.
pub(super) fn read(file: &OwnedFd, bytes: usize, stop: Stop<'_>) -> Result<Vec<u8>, FileError> {
    let mut content = Vec::new();
    content
        .try_reserve_exact(bytes)
        .map_err(|_| FileError::NoMemory { bytes })?;
    content.resize(bytes, 0);
    let mut done = 0;
    while done < bytes {
        if stop() {
            return Err(FileError::Cancelled);
        }
        let end = bytes.min(done + PIECE);
        // A file never has more than i64::MAX bytes.
        let at = i64::try_from(done).unwrap_or(i64::MAX);
        match pread(file, &mut content[done..end], at) {
            Ok(0) => return Err(FileError::Shrunk { read: done, bytes }),
            Ok(read) => done += read,
            Err(Errno::EINTR) => {}
            Err(error) => return Err(FileError::Unreadable { error }),
        }
    }
    Ok(content)
}
