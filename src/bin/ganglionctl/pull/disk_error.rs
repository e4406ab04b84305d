//! Errors of the disk, with a remedy.

use std::io::ErrorKind;
use std::path::Path;

use crate::failure::{Failure, failure};

/// Converts an error of the disk, with a remedy.
pub(super) fn failed(file: &Path, error: &std::io::Error) -> Failure {
    let failure = failure!(Failed: "{}: {error}", file.display());
    match error.kind() {
        ErrorKind::PermissionDenied => {
            failure.and("run it with sudo, or name a folder of your own with --dir")
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => failure.and(
            "make room, or name another disk with --dir: a second run resumes where this one stopped",
        ),
        _ => failure,
    }
}
