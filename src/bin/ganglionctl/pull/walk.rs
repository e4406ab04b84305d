//! A path, followed one name at a time with a descriptor held, so that what was looked at is what is used.
//!
//! Whoever owns a folder decides what lies below it, and may decide anew at any moment: nothing here looks at a path
//! twice. What each thing on the way means for whoever follows it is for the caller to say.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat, readlinkat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat};
use nix::unistd::{Uid, geteuid};

use crate::failure::Failure;

/// As many links as the kernel follows.
const LINKS: usize = 40;

/// What decides on the way.
pub(super) trait Follow {
    /// Looks at the next thing, before anything in it is touched: the root folder first, a link before what it names.
    ///
    /// # Errors
    /// What ends the walk.
    fn meet(&mut self, met: &FileStat) -> Result<(), Failure>;

    /// Makes what is missing in `parent`; not unless it is to be made.
    ///
    /// # Errors
    /// If it cannot be.
    fn make(&self, parent: &OwnedFd, name: &OsStr, is_last: bool) -> Result<(), Errno> {
        let _ = (parent, name, is_last);
        Err(Errno::ENOENT)
    }

    /// What to say of an error of the disk.
    fn failed(&self, error: Errno) -> Failure;
}

/// What `path`, an absolute one, names: open with `O_PATH`, which neither reads nor waits.
///
/// # Errors
/// What the follower or the disk refuses.
pub(super) fn walk(path: &Path, follow: &mut impl Follow) -> Result<OwnedFd, Failure> {
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let open_root = || open("/", flags | OFlag::O_DIRECTORY, Mode::empty());
    let mut at = open_root().map_err(|error| follow.failed(error))?;
    meet(&at, follow)?;
    let mut names: VecDeque<_> = names(path).collect();
    let mut links = 0;
    while let Some(name) = names.pop_front() {
        let next = match next(&at, &name) {
            Err(Errno::ENOENT) => follow
                .make(&at, &name, names.is_empty())
                .and_then(|()| next(&at, &name)),
            found => found,
        };
        let next = next.map_err(|error| follow.failed(error))?;
        if !is(&meet(&next, follow)?, SFlag::S_IFLNK) {
            at = next;
            continue;
        }
        links += 1;
        let target = match links {
            ..=LINKS => readlinkat(&next, ""),
            _ => Err(Errno::ELOOP),
        };
        let target = target.map_err(|error| follow.failed(error))?;
        let target = Path::new(&target);
        if target.is_absolute() {
            at = open_root().map_err(|error| follow.failed(error))?;
        }
        for name in self::names(target).rev() {
            names.push_front(name);
        }
    }
    Ok(at)
}

fn names(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    })
}

/// As a folder first: only so are folders mounted that are mounted when they are needed.
fn next(at: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    match openat(at, name, flags | OFlag::O_DIRECTORY, Mode::empty()) {
        Err(Errno::ENOTDIR | Errno::ELOOP) => openat(at, name, flags, Mode::empty()),
        found => found,
    }
}

fn meet(at: &OwnedFd, follow: &mut impl Follow) -> Result<FileStat, Failure> {
    let met = fstat(at).map_err(|error| follow.failed(error))?;
    follow.meet(&met)?;
    Ok(met)
}

pub(super) fn is(stat: &FileStat, kind: SFlag) -> bool {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == kind
}

/// Whose things root follows without a thought: root's, and those of whoever owns the root folder. In a user namespace
/// these are two.
#[derive(Debug, Default)]
pub(super) struct Trusted {
    root_folder: Option<Uid>,
}

impl Trusted {
    /// The owner of what is met, if that is somebody whom root must not follow.
    pub(super) fn stranger(&mut self, met: &FileStat) -> Option<Uid> {
        let owner = Uid::from_raw(met.st_uid);
        let root_folder = *self.root_folder.get_or_insert(owner);
        (geteuid().is_root() && !owner.is_root() && owner != root_folder).then_some(owner)
    }
}
