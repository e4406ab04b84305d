//! Follows a path one name at a time through held descriptors, so that the checked object is also the used one.
//!
//! The owner of a folder can replace its content at any moment, so no path is looked up twice. The caller decides what
//! each object on the path means.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Component, Path};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat, readlinkat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat};
use nix::unistd::{Uid, geteuid};

use super::disk_error::failed;
use crate::failure::{Outcome, bail, ensure};

/// The kernel's limit of links in a path.
const LINKS: usize = 40;

/// A descriptor opened like this can neither be read nor block.
const FOUND: OFlag = OFlag::O_PATH.union(OFlag::O_CLOEXEC);

/// Returns the object at an absolute path.
///
/// `meet` checks each object on the path before it is used: the root folder first, and a link before its target. It
/// also gets the object's owner, if that is a user whom root must not trust. `make` creates a missing object in a
/// folder; it learns whether that is the last name.
pub(super) fn walk(
    path: &Path,
    mut meet: impl FnMut(&FileStat, Option<Uid>) -> io::Result<()>,
    make: impl Fn(&OwnedFd, &OsStr, bool) -> io::Result<()>,
) -> io::Result<OwnedFd> {
    let root = || open("/", FOUND | OFlag::O_DIRECTORY, Mode::empty());
    let mut at = root()?;
    let root_folder = fstat(&at)?;
    let mut meet = |met: &FileStat| meet(met, stranger(met, &root_folder));
    meet(&root_folder)?;
    let mut names: VecDeque<_> = names(path).collect();
    let mut links = 0;
    while let Some(name) = names.pop_front() {
        let mut found = next(&at, &name);
        if matches!(found, Err(Errno::ENOENT)) {
            make(&at, &name, names.is_empty())?;
            found = next(&at, &name);
        }
        let found = found?;
        let stat = fstat(&found)?;
        meet(&stat)?;
        if !is(&stat, SFlag::S_IFLNK) {
            at = found;
            continue;
        }
        links += 1;
        if links > LINKS {
            return Err(Errno::ELOOP.into());
        }
        let target = readlinkat(&found, "")?;
        let target = Path::new(&target);
        if target.is_absolute() {
            at = root()?;
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

/// Opens the object of that name, as a folder first, because only that triggers an automount.
fn next(at: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = FOUND | OFlag::O_NOFOLLOW;
    match openat(at, name, flags | OFlag::O_DIRECTORY, Mode::empty()) {
        Err(Errno::ENOTDIR | Errno::ELOOP) => openat(at, name, flags, Mode::empty()),
        found => found,
    }
}

fn is(stat: &FileStat, kind: SFlag) -> bool {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == kind
}

/// Returns the owner of an object, if root must not trust it. Root trusts itself and the owner of the root folder,
/// which differ in a user namespace.
fn stranger(met: &FileStat, root_folder: &FileStat) -> Option<Uid> {
    let owner = Uid::from_raw(met.st_uid);
    let is_trusted = owner.is_root() || met.st_uid == root_folder.st_uid;
    (geteuid().is_root() && !is_trusted).then_some(owner)
}

/// Opens a local file to copy, before `pull` may become a user who cannot read it.
///
/// Root follows a link of another user only to a file of that user. Otherwise the link could make root copy a file that
/// only root may read.
pub(super) fn source(path: &Path) -> Outcome<File> {
    let failed_here = |error| failed(path, &error);
    // The user whose link was followed.
    let mut by = None;
    let meet = |met: &FileStat, stranger: Option<Uid>| {
        by = by.or(stranger.filter(|_| is(met, SFlag::S_IFLNK)));
        Ok(())
    };
    let absolute = std::path::absolute(path).map_err(failed_here)?;
    let found = walk(&absolute, meet, |_, _, _| Err(Errno::ENOENT.into())).map_err(failed_here)?;
    let stat = fstat(&found).map_err(|error| failed_here(error.into()))?;
    let shown = path.display();
    if let Some(user) = by.filter(|user| user.as_raw() != stat.st_uid) {
        bail!(Forbidden: "{shown}: a link of user {user} leads to another user's file: name the file itself");
    }
    ensure!(is(&stat, SFlag::S_IFREG), Data: "{shown} is not a file");
    // The descriptor leads to the same object, even if its name was replaced.
    File::open(format!("/proc/self/fd/{}", found.as_raw_fd())).map_err(failed_here)
}
