//! Control of the kernel's page cache.

use std::fs::File;
use std::io::IoSliceMut;
use std::path::Path;

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use rustix::io::{ReadWriteFlags, preadv2};

/// Drops a file from the page cache, as far as its file system allows.
pub(crate) fn forget(path: &Path) {
    let file = File::open(path).unwrap();
    file.sync_data().unwrap();
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).unwrap();
}

/// Whether the middle of a file is in the page cache, without reading it.
pub(crate) fn has(path: &Path) -> bool {
    let file = File::open(path).unwrap();
    let at = file.metadata().unwrap().len() / 2;
    let mut byte = [0];
    let buffers = &mut [IoSliceMut::new(&mut byte)];
    matches!(preadv2(&file, buffers, at, ReadWriteFlags::NOWAIT), Ok(1))
}
