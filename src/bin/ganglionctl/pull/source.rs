//! A file of this machine that is to be copied, opened before `pull` becomes a user that may be unable to read it.

use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::stat::{SFlag, fstat};

use super::failed;
use super::walk::{Trusted, is, walk};
use crate::failure::{Outcome, bail};

#[derive(Debug)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) file: File,
    /// When it was opened.
    pub(super) bytes: u64,
}

impl Source {
    /// Root follows a link of another user only to what is that user's: it could otherwise be had to copy what only root
    /// may read to where others can.
    ///
    /// # Errors
    /// If it cannot be read, or is no file.
    pub(super) fn open(path: &Path) -> Outcome<Self> {
        let told = |error| failed(path, &error);
        let absolute = std::path::absolute(path).map_err(told)?;
        let mut trusted = Trusted::default();
        // Whose link was followed.
        let mut by = None;
        let found = walk(
            &absolute,
            |met| {
                let stranger = trusted.stranger(met);
                if is(met, SFlag::S_IFLNK) {
                    by = by.or(stranger);
                }
                Ok(())
            },
            |_, _, _| Err(Errno::ENOENT),
        );
        let found = found.map_err(told)?;
        let stat = fstat(&found).map_err(|error| told(error.into()))?;
        let shown = path.display();
        if let Some(user) = by.filter(|user| user.as_raw() != stat.st_uid) {
            bail!(
                Forbidden,
                "{shown}: a link of user {user} leads to what is another's: name the file itself"
            );
        }
        if !is(&stat, SFlag::S_IFREG) {
            bail!(Data, "{shown} is no file");
        }
        Ok(Self {
            path: path.into(),
            file: reopen(&found).map_err(told)?,
            bytes: u64::try_from(stat.st_size).unwrap_or(0),
        })
    }
}

/// What was only found is opened to be read: the same thing, whatever has its name now.
pub(super) fn reopen(found: &OwnedFd) -> std::io::Result<File> {
    File::open(format!("/proc/self/fd/{}", found.as_raw_fd()))
}
