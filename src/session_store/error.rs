//! Errors of storing, reading and deleting sessions.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// An error of session storage. Its text names the file and the remedy.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The file system returned an error.
    #[error("{}: cannot {what} it: {error}; {}", path.display(), remedy(error))]
    Io {
        what: &'static str,
        path: PathBuf,
        error: Arc<io::Error>,
    },
    /// The file stays as it is.
    #[error(
        "{}: it was written in version {found} of the format, and this gangliond reads version {known}; use the gangliond that \
         wrote it, or delete the session",
        path.display()
    )]
    Version {
        path: PathBuf,
        found: u32,
        known: u32,
    },
    /// The file stays as it is: its owner could change it.
    #[error(
        "{}: it belongs to user {owner}, and gangliond runs as user {expected}; chown it, or move it away",
        path.display()
    )]
    Owner {
        path: PathBuf,
        owner: u32,
        expected: u32,
    },
    /// The file stays as it is.
    #[error(
        "{}: it has {bytes} bytes, and at most {most} are read of a session; raise sessions.mib_per_user, or delete the session",
        path.display()
    )]
    TooLong {
        path: PathBuf,
        bytes: u64,
        most: u64,
    },
    #[error(
        "user {user} keeps {sessions} sessions already; delete one, or raise sessions.per_user"
    )]
    Sessions { user: u32, sessions: usize },
    #[error(
        "the sessions of user {user} take {bytes} bytes, and {most} are allowed; delete one, or raise \
         sessions.mib_per_user"
    )]
    Bytes { user: u32, bytes: u64, most: u64 },
    #[error("the thread that writes sessions has ended; the service restarts it")]
    Ended,
}

impl StoreError {
    pub(super) fn io(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |error| Self::Io {
            what,
            path,
            error: Arc::new(error),
        }
    }
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "make room on that disk, or set sessions.directory to another"
        }
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            "let the daemon's user write there, or set sessions.directory to a folder where it may"
        }
        io::ErrorKind::InvalidInput | io::ErrorKind::NotADirectory => "move it away",
        io::ErrorKind::NotFound => "set sessions.directory to a folder that can be made",
        _ => "look for the disk's own errors in the kernel's log (journalctl -k)",
    }
}
