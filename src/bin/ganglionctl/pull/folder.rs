//! The folder that a model is put into, held by its descriptor, and as whom.
//!
//! Whoever owns a folder can put anything into it at any moment, links, pipes and another folder in its place. So root
//! becomes the owner of the first thing on the way that is not root's, for good, before it looks into it: what is planted
//! there can then lead only where its owner may go. What is root's stays root's.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{Mode, SFlag, fstat, fstatat, mkdirat, umask};
use nix::sys::statvfs::fstatvfs;
use nix::unistd::{
    Gid, Uid, UnlinkatFlags, User, fchown, geteuid, setgroups, setresgid, setresuid, unlinkat,
};

use super::failed;
use super::source::reopen;
use super::walk::{Trusted, is, walk};
use crate::failure::{Failure, Outcome};

/// The user whose models these are.
const SERVICE: &str = "ganglion";

/// Nobody but its owner may change it.
const MADE: Mode = Mode::from_bits_truncate(0o755);
const WRITTEN: Mode = Mode::from_bits_truncate(0o644);

/// How often what is in the way is removed before that is told: somebody puts it there again.
const ATTEMPTS: usize = 10;

#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    held: OwnedFd,
    /// Who root has become.
    became: Option<String>,
}

/// The folder that root has made is the service's, where there is such a user, unless another than root may have put
/// something else in its place.
fn hand_over(parent: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    let service = User::from_name(SERVICE).ok().flatten();
    let Some(user) = service.filter(|_| geteuid().is_root()) else {
        return Ok(());
    };
    let around = fstat(parent)?;
    if around.st_uid != 0 || around.st_mode & 0o022 != 0 {
        return Ok(());
    }
    let flags = OFlag::O_NOFOLLOW | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let made = openat(parent, name, flags, Mode::empty())?;
    fchown(&made, Some(user.uid), Some(user.gid))
}

/// For good: no id is left to return with. Its name.
fn become_user(owner: Uid, group: Gid) -> Result<String, Errno> {
    let user = User::from_uid(owner).ok().flatten();
    let group = user.as_ref().map_or(group, |user| user.gid);
    setgroups(&[])?;
    setresgid(group, group, group)?;
    setresuid(owner, owner, owner)?;
    Ok(user.map_or_else(|| owner.to_string(), |user| user.name))
}

/// Who it was that the disk refused, where that is not whoever runs this.
fn told(failure: Failure, path: &Path, became: Option<&str>) -> Failure {
    let Some(user) = became else {
        return failure;
    };
    Failure {
        message: format!(
            "{}; this is done as user {user}, whose folder it is in: sudo chown -R {user}: {} where it must be that user's",
            failure.message,
            path.display()
        ),
        ..failure
    }
}

impl Folder {
    /// Enters the folder at an absolute path, and makes what is missing of it.
    ///
    /// # Errors
    /// If it cannot be entered or made.
    pub(super) fn enter(path: &Path) -> Outcome<Self> {
        Self::open(path, |parent, name, is_last| {
            match mkdirat(parent, name, MADE) {
                Err(Errno::EEXIST) => Ok(()),
                Ok(()) if is_last => hand_over(parent, name),
                done => done,
            }
        })
    }

    /// Enters one that is there.
    ///
    /// # Errors
    /// If it is not, or cannot be entered.
    pub(crate) fn existing(path: &Path) -> Outcome<Self> {
        Self::open(path, |_, _, _| Err(Errno::ENOENT))
    }

    fn open(
        path: &Path,
        make: impl Fn(&OwnedFd, &OsStr, bool) -> Result<(), Errno>,
    ) -> Outcome<Self> {
        // The service passes through all that is made here, whatever the umask of whoever runs this.
        umask(Mode::from_bits_truncate(0o022));
        let mut trusted = Trusted::default();
        let mut became = None;
        let found = walk(
            path,
            |met| {
                let Some(owner) = trusted.stranger(met) else {
                    return Ok(());
                };
                let user = become_user(owner, Gid::from_raw(met.st_gid));
                became = Some(user.map_err(|error| {
                    io::Error::other(format!(
                        "root cannot become user {owner}, whose folder is on the way: {error}"
                    ))
                })?);
                Ok(())
            },
            make,
        );
        let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let held = found.and_then(|found| Ok(openat(&found, ".", flags, Mode::empty())?));
        match held {
            Ok(held) => Ok(Self {
                path: path.into(),
                held,
                became,
            }),
            Err(error) => Err(told(failed(path, &error), path, became.as_deref())),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// For people: it is never opened by it.
    pub(super) fn at(&self, name: &OsStr) -> PathBuf {
        self.path.join(name)
    }

    /// An error of the disk about a file in it, with what helps.
    pub(crate) fn failed(&self, name: &OsStr, error: &io::Error) -> Failure {
        let failure = failed(&self.at(name), error);
        let denied = error.kind() == io::ErrorKind::PermissionDenied;
        let became = self.became.as_deref().filter(|_| denied);
        told(failure, &self.path, became)
    }

    /// The same of what was done with it.
    ///
    /// # Errors
    /// That error.
    pub(crate) fn told<T>(&self, name: &OsStr, done: io::Result<T>) -> Outcome<T> {
        done.map_err(|error| self.failed(name, &error))
    }

    /// Whether anything has that name.
    pub(crate) fn has(&self, name: &OsStr) -> bool {
        fstatat(&self.held, name, AtFlags::AT_SYMLINK_NOFOLLOW).is_ok()
    }

    /// A regular file, to be read; a link is followed, as the service follows it.
    ///
    /// # Errors
    /// If it cannot be, or is another kind of thing.
    pub(super) fn read(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
        let found = openat(&self.held, name, flags, Mode::empty())?;
        if !is(&fstat(&found)?, SFlag::S_IFREG) {
            return Err(io::Error::other("it is no regular file"));
        }
        reopen(&found)
    }

    /// The text of a file that was `put` here; nothing if it is longer than `most` bytes.
    pub(super) fn text(&self, name: &OsStr, most: u64) -> Option<String> {
        let file = self.own(name, OFlag::O_RDONLY, most).ok()?;
        let mut text = String::new();
        file.take(most).read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// A file to go on with, of at most `most` bytes: one of our own that nobody else has a name
    /// for. Anything else gives way to a new one.
    ///
    /// # Errors
    /// If the disk refuses.
    pub(super) fn take(&self, name: &OsStr, most: u64) -> io::Result<File> {
        for _ in 0..ATTEMPTS {
            match self.own(name, OFlag::O_RDWR, most) {
                Ok(file) => return Ok(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(_) => self.remove(name)?,
            }
            match self.create(name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => return created,
            }
        }
        Err(io::Error::other(
            "something else is put there again and again",
        ))
    }

    fn own(&self, name: &OsStr, flags: OFlag, most: u64) -> io::Result<File> {
        let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = openat(&self.held, name, flags, Mode::empty())?;
        let stat = fstat(&file)?;
        let is_own = is(&stat, SFlag::S_IFREG)
            && stat.st_nlink == 1
            && stat.st_uid == geteuid().as_raw()
            && u64::try_from(stat.st_size).is_ok_and(|bytes| bytes <= most);
        if !is_own {
            return Err(io::Error::other("it is no file of our own"));
        }
        Ok(file.into())
    }

    /// Whether `file` still has that name.
    pub(super) fn names(&self, name: &OsStr, file: &File) -> bool {
        let named = fstatat(&self.held, name, AtFlags::AT_SYMLINK_NOFOLLOW);
        let held = fstat(file);
        matches!((named, held), (Ok(named), Ok(held))
            if (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino))
    }

    fn create(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        Ok(openat(&self.held, name, flags, WRITTEN)?.into())
    }

    /// A new file in the place of whatever has that name.
    ///
    /// # Errors
    /// If the disk refuses.
    pub(super) fn put(&self, name: &OsStr, text: &str) -> io::Result<()> {
        self.remove(name)?;
        self.create(name)?.write_all(text.as_bytes())
    }

    /// The name is free afterwards.
    ///
    /// # Errors
    /// If the disk refuses.
    pub(super) fn remove(&self, name: &OsStr) -> io::Result<()> {
        match unlinkat(&self.held, name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The same, and of a folder with all that is in it. No link is followed.
    ///
    /// # Errors
    /// If the disk refuses.
    pub(crate) fn remove_whole(&self, name: &OsStr) -> io::Result<()> {
        let found = fstatat(&self.held, name, AtFlags::AT_SYMLINK_NOFOLLOW);
        if !found.is_ok_and(|stat| is(&stat, SFlag::S_IFDIR)) {
            return self.remove(name);
        }
        // Below what is held, whatever has its path now.
        let held = PathBuf::from(format!("/proc/self/fd/{}", self.held.as_raw_fd()));
        fs::remove_dir_all(held.join(name))
    }

    /// Whether another `pull` is at work on a file of that name.
    pub(crate) fn is_locked(&self, name: &OsStr) -> bool {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let opened = openat(&self.held, name, flags, Mode::empty());
        opened.is_ok_and(|file| {
            let locked = File::from(file).try_lock();
            matches!(locked, Err(TryLockError::WouldBlock))
        })
    }

    /// # Errors
    /// If the disk refuses.
    pub(super) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(renameat(&self.held, from, &self.held, to)?)
    }

    /// Its names stay, whatever happens to the machine.
    ///
    /// # Errors
    /// If the disk refuses.
    pub(super) fn sync(&self) -> io::Result<()> {
        File::from(self.held.try_clone()?).sync_all()
    }

    /// Bytes that are free there, if the disk tells.
    pub(super) fn free(&self) -> Option<u64> {
        let disk = fstatvfs(&self.held).ok()?;
        Some(disk.blocks_available() * disk.fragment_size())
    }
}
