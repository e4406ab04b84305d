//! A file on its way: `FILE.part` and what it was part of, until it is whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use nix::fcntl::OFlag;
use nix::sys::statvfs::statvfs;
use nix::unistd::{Uid, User, fchown};
use sha2::{Digest as _, Sha256};

use super::failed;
use crate::checksum;
use crate::failure::{Exit, Failure};

/// Bytes that are read at a time.
const PIECE: usize = 1 << 18;

/// Why writing stopped.
#[derive(Debug)]
pub(super) enum Stopped {
    /// The other side: it can be tried again.
    Cut(io::Error),
    /// Trying again would not help.
    Final(Failure),
}

#[derive(Debug)]
pub(super) struct Part {
    /// What it will be called.
    whole: PathBuf,
    path: PathBuf,
    file: File,
    /// Of what is in it.
    digest: Sha256,
    length: u64,
}

fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

impl Part {
    /// Takes up what an earlier run left.
    ///
    /// # Errors
    /// If it cannot be written, or another run is at it.
    pub(super) fn open(whole: &Path) -> Result<Self, Failure> {
        let path = beside(whole, ".part");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        // The folder is the service's, and this may be root.
        options.custom_flags(OFlag::O_NOFOLLOW.bits());
        let mut file = options.open(&path).map_err(|error| failed(&path, &error))?;
        if file.try_lock().is_err() {
            let message = format!(
                "{} is being fetched by another ganglionctl",
                whole.display()
            );
            return Err(Failure::new(Exit::Busy, message));
        }
        let (mut digest, mut length) = (Sha256::new(), 0);
        let mut piece = vec![0; PIECE];
        loop {
            let read = file
                .read(&mut piece)
                .map_err(|error| failed(&path, &error))?;
            if read == 0 {
                break;
            }
            digest.update(&piece[..read]);
            length += read as u64;
        }
        Ok(Self {
            whole: whole.into(),
            path,
            file,
            digest,
            length,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) const fn length(&self) -> u64 {
        self.length
    }

    /// The version of what is at `url` that it is part of, as the server called it.
    pub(super) fn version(&self, url: &str) -> Option<String> {
        let text = fs::read_to_string(beside(&self.path, ".etag")).ok()?;
        let (of, version) = text.trim_end().split_once('\n')?;
        (of == url).then(|| version.to_owned())
    }

    /// Begins anew, with what the server calls this version of what is at its URL.
    ///
    /// # Errors
    /// If the disk refuses.
    pub(super) fn begin(&mut self, version: Option<(&str, &str)>) -> Result<(), Failure> {
        let begun = self.file.set_len(0).and_then(|()| self.file.rewind());
        begun.map_err(|error| failed(&self.path, &error))?;
        (self.digest, self.length) = (Sha256::new(), 0);
        let etag = beside(&self.path, ".etag");
        let Some((url, version)) = version else {
            let _ = fs::remove_file(&etag);
            return Ok(());
        };
        put(&etag, &format!("{url}\n{version}\n"))
            .map(drop)
            .map_err(|error| failed(&etag, &error))
    }

    /// Refuses what the disk has no room for, before it comes.
    ///
    /// # Errors
    /// If there is less than `more` bytes.
    pub(super) fn make_sure_of(&self, more: u64) -> Result<(), Failure> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        let Ok(disk) = statvfs(folder) else {
            return Ok(());
        };
        let free = disk.blocks_available() * disk.fragment_size();
        if more <= free {
            return Ok(());
        }
        let message = format!(
            "{}: {} MiB are still to come and {} MiB are free: make room, or name another disk with --dir",
            folder.display(),
            more.div_ceil(1 << 20),
            free >> 20
        );
        Err(Failure::new(Exit::Failed, message))
    }

    /// Appends all that comes.
    pub(super) fn append(
        &mut self,
        from: &mut impl Read,
        bar: &ProgressBar,
    ) -> Result<(), Stopped> {
        let mut piece = vec![0; PIECE];
        bar.set_position(self.length);
        loop {
            let read = match from.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Stopped::Cut(error)),
            };
            if let Err(error) = self.file.write_all(&piece[..read]) {
                // What came in part would not be known by its digest.
                let _ = self.file.set_len(self.length);
                return Err(Stopped::Final(failed(&self.path, &error)));
            }
            self.digest.update(&piece[..read]);
            self.length += read as u64;
            bar.set_position(self.length);
        }
    }

    /// Takes a file of this machine, which is whole.
    ///
    /// # Errors
    /// If it cannot be read, or not be written here.
    pub(super) fn copy(&mut self, source: &Path, bar: &ProgressBar) -> Result<(), Failure> {
        let mut from = File::open(source).map_err(|error| failed(source, &error))?;
        let length = from.metadata().map_or(0, |metadata| metadata.len());
        bar.set_length(length);
        self.begin(None)?;
        self.make_sure_of(length)?;
        self.append(&mut from, bar)
            .map_err(|stopped| match stopped {
                Stopped::Cut(error) => failed(source, &error),
                Stopped::Final(failure) => failure,
            })
    }

    /// Its SHA-256, once it is as expected; otherwise it is not kept.
    ///
    /// # Errors
    /// If it is another.
    pub(super) fn check(&self, expected: Option<&str>) -> Result<String, Failure> {
        let found = checksum::hexadecimal(&self.digest.clone().finalize());
        if let Some(expected) = expected.filter(|expected| *expected != found) {
            self.discard();
            let message = format!(
                "what came has the SHA-256 {found}, and {expected} was expected: it was not kept"
            );
            return Err(Failure::new(Exit::Data, message));
        }
        Ok(found)
    }

    pub(super) fn discard(&self) {
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_file(beside(&self.path, ".etag"));
    }

    /// Gives it its name, with its checksum beside it and the service as its owner.
    ///
    /// # Errors
    /// If the disk refuses.
    pub(super) fn finish(self, found: &str) -> Result<(), Failure> {
        let told = |error: io::Error| failed(&self.whole, &error);
        self.file
            .set_permissions(fs::Permissions::from_mode(0o644))
            .map_err(told)?;
        self.file.sync_all().map_err(told)?;
        let name = self.whole.file_name().unwrap_or_default().to_string_lossy();
        let beside_it = checksum::beside(&self.whole);
        let recorded = put(&beside_it, &format!("{found}  {name}\n")).map_err(told)?;
        fs::rename(&self.path, &self.whole).map_err(told)?;
        let _ = fs::remove_file(beside(&self.path, ".etag"));
        give_to_the_service(&self.file);
        give_to_the_service(&recorded);
        let folder = self.whole.parent().unwrap_or(Path::new("."));
        File::open(folder)
            .and_then(|folder| folder.sync_all())
            .map_err(told)
    }
}

/// A new file in the place of an old one, never through a link.
fn put(path: &Path, text: &str) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes())?;
    Ok(file)
}

/// What root fetches is the service's, where there is such a user.
pub(super) fn give_to_the_service(file: &File) {
    if !Uid::effective().is_root() {
        return;
    }
    if let Ok(Some(user)) = User::from_name("ganglion") {
        // It can read what is root's as well.
        let _ = fchown(file, Some(user.uid), Some(user.gid));
    }
}
