//! The folder that a model is put into, held by its descriptor, and as whom.
//!
//! Whoever owns a folder can put anything into it at any moment, links, pipes and another folder in its place. So root
//! becomes the owner of the first thing on the way that is not root's, for good, before it looks into it: what is planted
//! there can then lead only where its owner may go. What is root's stays root's.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, fstat, mkdirat, umask};
use nix::sys::statvfs::fstatvfs;
use nix::unistd::{Gid, Uid, User, geteuid, setgroups, setresgid, setresuid};

use super::failed;
use super::walk::walk;
use crate::checksum;
use crate::failure::{Failure, Outcome};

/// The user whose models these are.
const SERVICE: &str = "ganglion";

/// How often what is in the way is removed before that is told: somebody puts it there again.
const ATTEMPTS: usize = 10;

#[derive(Debug)]
pub(crate) struct Folder {
    pub(super) path: PathBuf,
    held: File,
    /// Who root has become.
    became: Option<String>,
}

/// The folder that root has made is the service's, where there is such a user, unless another than root may have put
/// something else in its place.
fn hand_over(parent: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let service = User::from_name(SERVICE).ok().flatten();
    let Some(user) = service.filter(|_| geteuid().is_root()) else {
        return Ok(());
    };
    let flags = OFlag::O_NOFOLLOW | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let around = fstat(parent)?;
    if around.st_uid != 0 || around.st_mode & 0o022 != 0 {
        return Ok(());
    }
    let made = openat(parent, name, flags, Mode::empty())?;
    fchown(made, Some(user.uid.as_raw()), Some(user.gid.as_raw()))
}

/// Becomes that user for good, as no id is left to return with, and tells its name.
fn become_user(owner: Uid, group: Gid) -> io::Result<String> {
    let user = User::from_uid(owner).ok().flatten();
    let group = user.as_ref().map_or(group, |user| user.gid);
    let became = setgroups(&[])
        .and_then(|()| setresgid(group, group, group))
        .and_then(|()| setresuid(owner, owner, owner));
    became.map_err(|error| {
        let why = format!("root cannot become user {owner}, whose folder is on the way: {error}");
        io::Error::other(why)
    })?;
    Ok(user.map_or_else(|| owner.to_string(), |user| user.name))
}

/// Who it was that the disk refused, where that is not whoever runs this.
fn told(failure: Failure, path: &Path, became: Option<&str>) -> Failure {
    let Some(user) = became else {
        return failure;
    };
    failure.and(format_args!(
        "this is done as user {user}, whose folder it is in: sudo chown -R {user}: {} where it must be that user's",
        path.display()
    ))
}

impl Folder {
    /// Enters the folder at an absolute path, and makes what is missing of it.
    pub(super) fn enter(path: &Path) -> Outcome<Self> {
        Self::open(path, |parent, name, is_last| {
            // Nobody but its owner may change it.
            match mkdirat(parent, name, Mode::from_bits_truncate(0o755)) {
                Err(Errno::EEXIST) => Ok(()),
                Ok(()) if is_last => hand_over(parent, name),
                done => Ok(done?),
            }
        })
    }

    /// Enters one that is there.
    pub(crate) fn existing(path: &Path) -> Outcome<Self> {
        Self::open(path, |_, _, _| Err(Errno::ENOENT.into()))
    }

    fn open(path: &Path, make: impl Fn(&OwnedFd, &OsStr, bool) -> io::Result<()>) -> Outcome<Self> {
        // The service passes through all that is made here, whatever the umask of whoever runs this.
        umask(Mode::from_bits_truncate(0o022));
        let mut became = None;
        let found = walk(
            path,
            |met, stranger| {
                if let Some(owner) = stranger {
                    became = Some(become_user(owner, Gid::from_raw(met.st_gid))?);
                }
                Ok(())
            },
            make,
        );
        let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let held = found.and_then(|found| Ok(openat(&found, ".", flags, Mode::empty())?));
        let held = held.map_err(|error| told(failed(path, &error), path, became.as_deref()))?;
        let (path, held) = (path.into(), held.into());
        Ok(Self { path, held, became })
    }

    /// The path that people are shown: nothing is ever opened by it.
    pub(super) fn at(&self, name: &OsStr) -> PathBuf {
        self.path.join(name)
    }

    /// The path of a file below what is held, whatever has its path now.
    fn here(&self, name: &OsStr) -> PathBuf {
        let held = format!("/proc/self/fd/{}", self.held.as_raw_fd());
        Path::new(&held).join(name)
    }

    /// What was done with a file in it, or why the disk did not do it, with what helps.
    pub(crate) fn told<T>(&self, name: &OsStr, done: io::Result<T>) -> Outcome<T> {
        done.map_err(|error| {
            let denied = error.kind() == io::ErrorKind::PermissionDenied;
            let became = self.became.as_deref().filter(|_| denied);
            told(failed(&self.at(name), &error), &self.path, became)
        })
    }

    /// Whether anything has that name.
    pub(crate) fn has(&self, name: &OsStr) -> bool {
        self.here(name).symlink_metadata().is_ok()
    }

    /// A regular file, to be read; a link is followed, as the service follows it.
    pub(super) fn read(&self, name: &OsStr) -> io::Result<File> {
        checksum::open(&self.here(name))
    }

    /// The text of a file that was `put` here; nothing if it is longer than `most` bytes.
    pub(super) fn text(&self, name: &OsStr, most: u64) -> Option<String> {
        let file = self.own(name, false, most).ok()?;
        let mut text = String::new();
        file.take(most).read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// A file to go on with, of at most `most` bytes: one of our own that nobody else has a name
    /// for. Anything else gives way to a new one.
    pub(super) fn take(&self, name: &OsStr, most: u64) -> io::Result<File> {
        for _ in 0..ATTEMPTS {
            match self.own(name, true, most) {
                Ok(file) => return Ok(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(_) => self.remove(name)?,
            }
            match self.create(name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => return created,
            }
        }
        let why = "something else is put there again and again";
        Err(io::Error::other(why))
    }

    /// Whatever has that name, if it is no link, and nothing that waits for another side.
    fn itself(&self, name: &OsStr, writes: bool) -> io::Result<File> {
        let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let mut options = File::options();
        let options = options.read(true).write(writes).custom_flags(flags.bits());
        options.open(self.here(name))
    }

    fn own(&self, name: &OsStr, writes: bool, most: u64) -> io::Result<File> {
        let file = self.itself(name, writes)?;
        let found = file.metadata()?;
        let is_own = found.is_file()
            && found.nlink() == 1
            && found.uid() == geteuid().as_raw()
            && found.len() <= most;
        if is_own {
            Ok(file)
        } else {
            Err(io::Error::other("it is no file of our own"))
        }
    }

    /// Whether `file` still has that name.
    pub(super) fn names(&self, name: &OsStr, file: &File) -> bool {
        let named = self.here(name).symlink_metadata();
        matches!((named, file.metadata()), (Ok(named), Ok(held))
            if (named.dev(), named.ino()) == (held.dev(), held.ino()))
    }

    fn create(&self, name: &OsStr) -> io::Result<File> {
        let mut options = File::options();
        let options = options.read(true).write(true).create_new(true);
        options.mode(0o644).open(self.here(name))
    }

    /// A new file in the place of whatever has that name.
    pub(super) fn put(&self, name: &OsStr, text: &str) -> io::Result<()> {
        self.remove(name)?;
        self.create(name)?.write_all(text.as_bytes())
    }

    /// The name is free afterwards.
    pub(super) fn remove(&self, name: &OsStr) -> io::Result<()> {
        match fs::remove_file(self.here(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// The same, and of a folder with all that is in it. No link is followed.
    pub(crate) fn remove_whole(&self, name: &OsStr) -> io::Result<()> {
        let found = self.here(name).symlink_metadata();
        if found.is_ok_and(|found| found.is_dir()) {
            return fs::remove_dir_all(self.here(name));
        }
        self.remove(name)
    }

    /// Whether another `pull` is at work on a file of that name.
    pub(crate) fn is_locked(&self, name: &OsStr) -> bool {
        let locked = self.itself(name, false).map(|file| file.try_lock());
        matches!(locked, Ok(Err(TryLockError::WouldBlock)))
    }

    pub(super) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        fs::rename(self.here(from), self.here(to))
    }

    /// Its names stay, whatever happens to the machine.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.held.sync_all()
    }

    /// Bytes that are free there, if the disk tells.
    pub(super) fn free(&self) -> Option<u64> {
        let disk = fstatvfs(&self.held).ok()?;
        Some(disk.blocks_available() * disk.fragment_size())
    }
}
