//! Why a file is not used.

use std::io;

/// The file is deleted unless the reason is temporary, and the session is prefilled instead.
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
    #[error("it was computed with another {0}")]
    Key(String),
}

impl Refusal {
    /// Whether the system lacked descriptors, threads or memory, so that the file itself may be good.
    pub(super) fn is_passing(&self) -> bool {
        use io::ErrorKind::{Interrupted, OutOfMemory, WouldBlock};
        // `ErrorKind` has no kinds for these limits.
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
