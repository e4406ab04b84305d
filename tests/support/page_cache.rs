//! Control of the kernel's page cache.

use std::fs::File;
use std::path::Path;

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

/// Drops a file from the page cache, as far as its file system allows.
pub(crate) fn forget(path: &Path) {
    let file = File::open(path).unwrap();
    file.sync_data().unwrap();
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).unwrap();
}
