//! Files as they are after the machine's start.

use std::fs::File;
use std::path::Path;

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

/// Has the page cache forget a file, as far as its file system does.
pub(crate) fn forget(path: &Path) {
    let file = File::open(path).unwrap();
    file.sync_data().unwrap();
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).unwrap();
}
