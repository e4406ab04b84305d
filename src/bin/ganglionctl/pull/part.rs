//! A file on its way: `FILE.part` and what it was part of, until it is whole.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{self, Read, Seek as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use sha2::{Digest as _, Sha256};

use super::failed;
use super::folder::Folder;
use crate::checksum::{self, beside};
use crate::failure::{Failure, Outcome, bail, failure};

/// Bytes that are read at a time.
const PIECE: usize = 1 << 18;

/// Bytes of `FILE.part.etag`: a longer one is not ours.
const ETAG: u64 = 4096;

/// Why writing stopped.
#[derive(Debug)]
pub(super) enum Stopped {
    /// The other side: it can be tried again.
    Cut(io::Error),
    /// Trying again would not help.
    Final(Failure),
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Self::Final(failure)
    }
}

#[derive(Debug)]
pub(super) struct Part<'a> {
    folder: &'a Folder,
    /// What it will be called.
    whole: OsString,
    name: OsString,
    etag: OsString,
    file: File,
    /// Bytes that it may have.
    most: u64,
    /// The digest of what is in it.
    digest: Sha256,
    length: u64,
}

impl<'a> Part<'a> {
    /// Takes up what an earlier run left of a file of at most `most` bytes.
    pub(super) fn open(folder: &'a Folder, whole: &OsStr, most: u64) -> Outcome<Self> {
        let name = beside(whole, ".part");
        let mut file = lock(folder, whole, &name, most)?;
        let (digest, length) = folder.told(&name, checksum::digest(&mut file))?;
        Ok(Self {
            folder,
            whole: whole.into(),
            etag: beside(&name, ".etag"),
            name,
            file,
            most,
            digest,
            length,
        })
    }

    /// Where it can be read, whatever has its name now.
    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }

    pub(super) const fn length(&self) -> u64 {
        self.length
    }

    /// The version of what is at `url` that it is part of, as the server called it.
    pub(super) fn version(&self, url: &str) -> Option<String> {
        let text = self.folder.text(&self.etag, ETAG)?;
        let (of, version) = text.trim_end().split_once('\n')?;
        (of == url).then(|| version.to_owned())
    }

    /// Begins anew, with what the server calls this version of what is at its URL.
    pub(super) fn begin(&mut self, version: Option<(&str, &str)>) -> Outcome {
        let begun = self.file.set_len(0).and_then(|()| self.file.rewind());
        self.folder.told(&self.name, begun)?;
        (self.digest, self.length) = (Sha256::new(), 0);
        let version = version.map(|(url, version)| format!("{url}\n{version}\n"));
        // What would not be read again is not kept.
        let noted = match version.filter(|text| text.len() as u64 <= ETAG) {
            Some(text) => self.folder.put(&self.etag, &text),
            None => self.folder.remove(&self.etag),
        };
        self.folder.told(&self.etag, noted)
    }

    /// Refuses what is too long, or what the disk has no room for, before it comes.
    pub(super) fn make_sure_of(&self, total: u64) -> Outcome {
        if total > self.most {
            bail!(
                Data,
                "{}: {total} bytes would come, and at most {} were expected: it was not fetched",
                self.folder.at(&self.whole).display(),
                self.most
            );
        }
        let more = total.saturating_sub(self.length);
        let Some(free) = self.folder.free().filter(|free| more > *free) else {
            return Ok(());
        };
        Err(failure!(
            Failed,
            "{}: {} MiB are still to come and {} MiB are free: make room, or name another disk with --dir",
            self.folder.path().display(),
            more.div_ceil(1 << 20),
            free >> 20
        ))
    }

    /// Expects no more than so many bytes in all.
    pub(super) fn expect(&mut self, bytes: u64) {
        self.most = self.most.min(bytes);
    }

    /// Appends all that comes, up to what may come in all: what goes on beyond that is not kept.
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
            if read as u64 > self.most.saturating_sub(self.length) {
                self.begin(None)?;
                let (whole, most) = (self.folder.at(&self.whole), self.most);
                let whole = whole.display();
                return Err(Stopped::Final(failure!(
                    Data,
                    "{whole}: more came than the {most} bytes that were expected: it was not kept"
                )));
            }
            if let Err(error) = self.file.write_all(&piece[..read]) {
                // What came in part would not be known by its digest.
                let _ = self.file.set_len(self.length);
                return Err(self.folder.failed(&self.name, &error).into());
            }
            self.digest.update(&piece[..read]);
            self.length += read as u64;
            bar.set_position(self.length);
        }
    }

    /// Takes a file of this machine, which is whole.
    pub(super) fn copy(&mut self, path: &Path, file: &mut File, bar: &ProgressBar) -> Outcome {
        let told = |error| failed(path, &error);
        let bytes = file.metadata().map_err(told)?.len();
        bar.set_length(bytes);
        self.begin(None)?;
        self.make_sure_of(bytes)?;
        match self.append(file, bar) {
            Err(Stopped::Cut(error)) => Err(told(error)),
            Err(Stopped::Final(failure)) => Err(failure),
            Ok(()) => Ok(()),
        }
    }

    /// Its SHA-256, once it is as expected; otherwise it is not kept.
    pub(super) fn check(&self, expected: Option<&str>) -> Outcome<String> {
        let found = checksum::hexadecimal(&self.digest.clone().finalize());
        if let Some(expected) = expected.filter(|expected| *expected != found) {
            self.discard();
            bail!(
                Data,
                "what came has the SHA-256 {found}, and {expected} was expected: it was not kept"
            );
        }
        Ok(found)
    }

    pub(super) fn discard(&self) {
        let _ = self.folder.remove(&self.name);
        let _ = self.folder.remove(&self.etag);
    }

    /// Gives it its name, with its checksum beside it.
    pub(super) fn finish(self, found: &str) -> Outcome {
        let (folder, whole) = (self.folder, &self.whole);
        let sum = beside(whole, checksum::RECORDED);
        let line = format!("{found}  {}\n", whole.to_string_lossy());
        // The service reads it, whoever it belongs to.
        let finished = self
            .file
            .set_permissions(Permissions::from_mode(0o644))
            .and_then(|()| self.file.sync_all())
            .and_then(|()| folder.put(&sum, &line))
            .and_then(|()| folder.rename(&self.name, whole))
            .and_then(|()| {
                let _ = folder.remove(&self.etag);
                folder.sync()
            });
        folder.told(whole, finished)
    }
}

/// The part, for this run alone.
fn lock(folder: &Folder, whole: &OsStr, name: &OsStr, most: u64) -> Outcome<File> {
    loop {
        let file = folder.told(name, folder.take(name, most))?;
        if file.try_lock().is_err() {
            bail!(
                Busy,
                "{} is being fetched by another ganglionctl",
                folder.at(whole).display()
            );
        }
        // Another run may have finished between the two: then this is the whole file.
        if folder.names(name, &file) {
            return Ok(file);
        }
    }
}
