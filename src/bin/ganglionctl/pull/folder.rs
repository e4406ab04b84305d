//! The destination folder, held by its descriptor, and the user who may write to it.
//!
//! The owner of a folder can replace its content at any moment by links, pipes or other folders. Root therefore
//! permanently becomes the owner of the first folder on the path that does not belong to root, before it looks into it.
//! A planted link can then lead only to places that its owner may access.

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

use super::disk_error::failed;
use super::walk::walk;
use crate::checksum;
use crate::failure::{Failure, Outcome};

/// The user that owns the models.
const SERVICE: &str = "ganglion";

/// The number of attempts to remove an obstacle that another program may recreate.
const ATTEMPTS: usize = 10;

#[derive(Debug)]
pub(crate) struct Folder {
    pub(super) path: PathBuf,
    held: File,
    /// The name of the user that root has become.
    became: Option<String>,
}

/// Gives a folder that root has made to the service's user, if there is one. A folder that another user may have
/// replaced stays as it is.
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

/// Becomes that user permanently, and returns its name.
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

/// Adds the user to a disk's error if it is not the one who started the program.
fn with_user(failure: Failure, path: &Path, became: Option<&str>) -> Failure {
    let Some(user) = became else {
        return failure;
    };
    failure.and(format_args!(
        "pull works as user {user}, who owns the folder; to give the folder's content to that user: sudo chown -R {user}: {}",
        path.display()
    ))
}

impl Folder {
    /// Enters the folder at an absolute path, and makes its missing parts.
    pub(super) fn enter(path: &Path) -> Outcome<Self> {
        Self::open(path, |parent, name, is_last| {
            // Only its owner may change it.
            match mkdirat(parent, name, Mode::from_bits_truncate(0o755)) {
                Err(Errno::EEXIST) => Ok(()),
                Ok(()) if is_last => hand_over(parent, name),
                done => Ok(done?),
            }
        })
    }

    /// Enters an existing folder.
    pub(crate) fn existing(path: &Path) -> Outcome<Self> {
        Self::open(path, |_, _, _| Err(Errno::ENOENT.into()))
    }

    fn open(path: &Path, make: impl Fn(&OwnedFd, &OsStr, bool) -> io::Result<()>) -> Outcome<Self> {
        // The service needs access to new files and folders, whatever the user's umask.
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
        let held =
            held.map_err(|error| with_user(failed(path, &error), path, became.as_deref()))?;
        let (path, held) = (path.into(), held.into());
        Ok(Self { path, held, became })
    }

    /// Returns a path for messages, which is never opened.
    pub(super) fn at(&self, name: &OsStr) -> PathBuf {
        self.path.join(name)
    }

    /// Returns the path of a file through the held descriptor, which cannot be replaced.
    fn here(&self, name: &OsStr) -> PathBuf {
        let held = format!("/proc/self/fd/{}", self.held.as_raw_fd());
        Path::new(&held).join(name)
    }

    /// Adds path, user and remedy to the error of an operation.
    pub(crate) fn explain<T>(&self, name: &OsStr, done: io::Result<T>) -> Outcome<T> {
        done.map_err(|error| {
            let denied = error.kind() == io::ErrorKind::PermissionDenied;
            let became = self.became.as_deref().filter(|_| denied);
            with_user(failed(&self.at(name), &error), &self.path, became)
        })
    }

    /// Whether something has that name.
    pub(crate) fn has(&self, name: &OsStr) -> bool {
        self.here(name).symlink_metadata().is_ok()
    }

    /// Opens a regular file for reading. A link is followed, as the service follows it.
    pub(super) fn read(&self, name: &OsStr) -> io::Result<File> {
        checksum::open(&self.here(name))
    }

    /// Reads a file that `put` wrote; `None` if it is longer than `most` bytes.
    pub(super) fn text(&self, name: &OsStr, most: u64) -> Option<String> {
        let file = self.own(name, false, most).ok()?;
        let mut text = String::new();
        file.take(most).read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// Opens a file to continue, of at most `most` bytes: one of the present user with a single name. Anything else is
    /// replaced by a new file.
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
        let why = "another program keeps creating it";
        Err(io::Error::other(why))
    }

    /// Opens whatever has that name, except a link, without waiting for a peer.
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
            Err(io::Error::other("it is not a file of this user"))
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

    /// Replaces whatever has that name by a new file.
    pub(super) fn put(&self, name: &OsStr, text: &str) -> io::Result<()> {
        self.remove(name)?;
        self.create(name)?.write_all(text.as_bytes())
    }

    /// Removes whatever has that name.
    pub(super) fn remove(&self, name: &OsStr) -> io::Result<()> {
        match fs::remove_file(self.here(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Removes whatever has that name, including the content of a folder. No link is followed.
    pub(crate) fn remove_whole(&self, name: &OsStr) -> io::Result<()> {
        let found = self.here(name).symlink_metadata();
        if found.is_ok_and(|found| found.is_dir()) {
            return fs::remove_dir_all(self.here(name));
        }
        self.remove(name)
    }

    /// Whether another `pull` works on a file of that name.
    pub(crate) fn is_locked(&self, name: &OsStr) -> bool {
        let locked = self.itself(name, false).map(|file| file.try_lock());
        matches!(locked, Ok(Err(TryLockError::WouldBlock)))
    }

    pub(super) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        fs::rename(self.here(from), self.here(to))
    }

    /// Waits until the names in the folder are on the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.held.sync_all()
    }

    /// Returns the free bytes of the disk, if it reports them.
    pub(super) fn free(&self) -> Option<u64> {
        let disk = fstatvfs(&self.held).ok()?;
        Some(disk.blocks_available() * disk.fragment_size())
    }
}
