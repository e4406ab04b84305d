//! Why a file is not used.

use std::io;

/// It is deleted, unless that passes, and what it was of is read again.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error("it belongs to user {owner}, and gangliond runs as user {expected}")]
    Owner { owner: u32, expected: u32 },
    #[error("its {0} is damaged")]
    Damaged(&'static str),
    #[error("page {0} of it is damaged")]
    Page(usize),
    #[error(
        "it was written in version {found} of the format, and this gangliond reads version {known}"
    )]
    Version { found: u32, known: u32 },
    #[error("it was made with another {0}")]
    Key(String),
}

impl Refusal {
    /// Whether the system lacked something, rather than the file: descriptors, threads, memory.
    pub(super) fn is_passing(&self) -> bool {
        use io::ErrorKind::{Interrupted, OutOfMemory, WouldBlock};
        // Of what a process and a system may have too many there is no kind.
        const TOO_MANY_FILES: [i32; 2] = [nix::libc::EMFILE, nix::libc::ENFILE];
        let Self::Io(error) = self else {
            return false;
        };
        matches!(error.kind(), WouldBlock | Interrupted | OutOfMemory)
            || error
                .raw_os_error()
                .is_some_and(|code| TOO_MANY_FILES.contains(&code))
    }
}
