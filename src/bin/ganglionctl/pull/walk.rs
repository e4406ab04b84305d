//! A path, followed one name at a time with a descriptor held, so that what was looked at is what is used.
//!
//! Whoever owns a folder decides what lies below it, and may decide anew at any moment: nothing here looks at a path
//! twice. What each thing on the way means for whoever follows it is for the caller to say.

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

use super::failed;
use crate::failure::{Outcome, bail, ensure};

/// The kernel follows so many links.
const LINKS: usize = 40;

/// What is open so can neither be read nor waits.
const FOUND: OFlag = OFlag::O_PATH.union(OFlag::O_CLOEXEC);

/// What `path`, an absolute one, names.
///
/// `meet` looks at each thing on the way before anything in it is touched: the root folder first, a link before what it
/// names. It hears who owns that, if it is somebody whom root must not follow. `make` makes what is missing in a folder; it hears whether that is the last name.
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

/// Opens what has that name, as a folder first: only so are folders mounted that are mounted when they are needed.
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

/// The owner of what is met, if that is somebody whom root must not follow. It follows without a thought what is root's, and
/// what is of whoever owns the root folder: in a user namespace these are two.
fn stranger(met: &FileStat, root_folder: &FileStat) -> Option<Uid> {
    let owner = Uid::from_raw(met.st_uid);
    let is_trusted = owner.is_root() || met.st_uid == root_folder.st_uid;
    (geteuid().is_root() && !is_trusted).then_some(owner)
}

/// Opens a file of this machine that is to be copied; `pull` may then become a user that cannot read it.
///
/// Root follows a link of another user only to what is that user's: it could otherwise be had to copy what only root
/// may read to where others can.
pub(super) fn source(path: &Path) -> Outcome<File> {
    let told = |error| failed(path, &error);
    // The user whose link was followed is kept here.
    let mut by = None;
    let meet = |met: &FileStat, stranger: Option<Uid>| {
        by = by.or(stranger.filter(|_| is(met, SFlag::S_IFLNK)));
        Ok(())
    };
    let absolute = std::path::absolute(path).map_err(told)?;
    let found = walk(&absolute, meet, |_, _, _| Err(Errno::ENOENT.into())).map_err(told)?;
    let stat = fstat(&found).map_err(|error| told(error.into()))?;
    let shown = path.display();
    if let Some(user) = by.filter(|user| user.as_raw() != stat.st_uid) {
        bail!(Forbidden: "{shown}: a link of user {user} leads to what is another's: name the file itself");
    }
    ensure!(is(&stat, SFlag::S_IFREG), Data: "{shown} is no file");
    // It is the same thing, whatever has its name now.
    File::open(format!("/proc/self/fd/{}", found.as_raw_fd())).map_err(told)
}
