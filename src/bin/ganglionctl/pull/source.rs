//! A file of this machine that is to be copied, opened before `pull` becomes a user that may be unable to read it.

use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::stat::{FileStat, SFlag, fstat};
use nix::unistd::Uid;

use super::failed;
use super::walk::{Follow, Trusted, is, walk};
use crate::failure::{Exit, Failure};

#[derive(Debug)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) file: File,
    /// When it was opened.
    pub(super) bytes: u64,
}

/// Root follows a link of another user only to what is that user's: it could otherwise be had to copy what only root may
/// read to where others can.
struct Reading<'a> {
    path: &'a Path,
    trusted: Trusted,
    /// Whose link was followed.
    by: Option<Uid>,
}

impl Follow for Reading<'_> {
    fn meet(&mut self, met: &FileStat) -> Result<(), Failure> {
        let stranger = self.trusted.stranger(met);
        if is(met, SFlag::S_IFLNK) {
            self.by = self.by.or(stranger);
        }
        Ok(())
    }

    fn failed(&self, error: Errno) -> Failure {
        failed(self.path, &error.into())
    }
}

impl Source {
    /// # Errors
    /// If it cannot be read, or is no file.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let absolute = std::path::absolute(path).map_err(|error| failed(path, &error))?;
        let mut reading = Reading {
            path,
            trusted: Trusted::default(),
            by: None,
        };
        let found = walk(&absolute, &mut reading)?;
        let stat = fstat(&found).map_err(|error| reading.failed(error))?;
        if let Some(user) = reading.by.filter(|user| user.as_raw() != stat.st_uid) {
            let message = format!(
                "{}: a link of user {user} leads to what is another's: name the file itself",
                path.display()
            );
            return Err(Failure::new(Exit::Forbidden, message));
        }
        if !is(&stat, SFlag::S_IFREG) {
            let message = format!("{} is no file", path.display());
            return Err(Failure::new(Exit::Data, message));
        }
        let file = reopen(&found).map_err(|error| failed(path, &error))?;
        Ok(Self {
            path: path.into(),
            file,
            bytes: u64::try_from(stat.st_size).unwrap_or(0),
        })
    }
}

/// What was only found is opened to be read: the same thing, whatever has its name now.
pub(super) fn reopen(found: &OwnedFd) -> std::io::Result<File> {
    File::open(format!("/proc/self/fd/{}", found.as_raw_fd()))
}
