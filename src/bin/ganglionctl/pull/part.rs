//! An unfinished download: `FILE.part`, and the name of its version.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{self, Read, Seek as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};
use sha2::{Digest as _, Sha256};

use super::disk_error::failed;
use super::folder::Folder;
use crate::checksum::{self, with_suffix};
use crate::failure::{Failure, Outcome, bail, ensure};
use crate::output;

/// Bytes of one read.
const PIECE: usize = 1 << 18;

/// The most bytes of `FILE.part.etag`; a longer one is a foreign file.
const ETAG: u64 = 4096;

#[derive(Debug)]
pub(super) struct Part<'a> {
    folder: &'a Folder,
    /// The final name.
    whole: OsString,
    name: OsString,
    etag: OsString,
    file: File,
    /// The most bytes that it may have.
    most: u64,
    /// The SHA-256 that the user expects, and the one that the server reports.
    pub(super) wanted: Option<String>,
    reported: Option<String>,
    /// The digest of the content.
    digest: Sha256,
    pub(super) length: u64,
    bar: ProgressBar,
}

impl<'a> Part<'a> {
    /// Opens the remains of an earlier run of a file of at most `most` bytes.
    pub(super) fn open(
        folder: &'a Folder,
        whole: &OsStr,
        most: u64,
        wanted: Option<String>,
    ) -> Outcome<Self> {
        let name = with_suffix(whole, ".part");
        let mut file = lock(folder, whole, &name, most)?;
        let (digest, length) = folder.explain(&name, checksum::digest(&mut file))?;
        Ok(Self {
            folder,
            whole: whole.into(),
            etag: with_suffix(&name, ".etag"),
            name,
            file,
            most,
            wanted,
            reported: None,
            digest,
            length,
            bar: progress(&whole.to_string_lossy()),
        })
    }

    /// Returns a path to read it, which cannot be replaced.
    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }

    /// Returns the server's name for the version of `url` that the content belongs to.
    pub(super) fn version(&self, url: &str) -> Option<String> {
        let text = self.folder.text(&self.etag, ETAG)?;
        let (of, version) = text.trim_end().split_once('\n')?;
        (of == url).then(|| version.to_owned())
    }

    /// Starts again, and stores the server's name for the version.
    pub(super) fn begin(&mut self, version: Option<(&str, &str)>) -> Outcome {
        let begun = self.file.set_len(0).and_then(|()| self.file.rewind());
        self.folder.explain(&self.name, begun)?;
        (self.digest, self.length) = (Sha256::new(), 0);
        let version = version.map(|(url, version)| format!("{url}\n{version}\n"));
        // A name that is too long to be read later is not stored.
        let noted = match version.filter(|text| text.len() as u64 <= ETAG) {
            Some(text) => self.folder.put(&self.etag, &text),
            None => self.folder.remove(&self.etag),
        };
        self.folder.explain(&self.etag, noted)
    }

    /// Refuses a download that is too long, or for which the disk has no room, before it begins.
    pub(super) fn check_size(&self, total: u64) -> Outcome {
        ensure!(
            total <= self.most,
            Data: "{}: it has {total} bytes, and at most {} were expected: it was not fetched",
            self.folder.at(&self.whole).display(), self.most
        );
        let more = total.saturating_sub(self.length);
        let free = self.folder.free().unwrap_or(u64::MAX);
        ensure!(
            more <= free,
            Failed: "{}: {} MiB are missing and {} MiB are free: make room, or name another disk with --dir",
            self.folder.path.display(), more.div_ceil(1 << 20), free >> 20
        );
        Ok(())
    }

    /// Takes the server's facts about the whole file.
    pub(super) fn take_facts(&mut self, sha256: Option<String>, bytes: Option<u64>) -> Outcome {
        self.reported = sha256;
        if let Some(bytes) = bytes {
            self.check_size(bytes)?;
            self.most = self.most.min(bytes);
        }
        Ok(())
    }

    /// Appends all received data of a file of known length, up to `most` bytes. `cut` converts the error of a read.
    pub(super) fn append(
        &mut self,
        from: &mut impl Read,
        total: Option<u64>,
        cut: impl Fn(io::Error) -> Failure,
    ) -> Outcome {
        self.bar.set_length(total.unwrap_or(0));
        if let Some(total) = total {
            self.check_size(total)?;
        }
        let mut piece = vec![0; PIECE];
        self.bar.set_position(self.length);
        loop {
            let read = match from.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(cut(error)),
            };
            if read as u64 > self.most.saturating_sub(self.length) {
                self.begin(None)?;
                let (whole, most) = (self.folder.at(&self.whole), self.most);
                let whole = whole.display();
                bail!(Data: "{whole}: it has more than the {most} bytes that were expected: it was deleted");
            }
            let written = self.file.write_all(&piece[..read]);
            if written.is_err() {
                // The digest does not include a partly written piece.
                let _ = self.file.set_len(self.length);
            }
            self.folder.explain(&self.name, written)?;
            self.digest.update(&piece[..read]);
            self.length += read as u64;
            self.bar.set_position(self.length);
        }
    }

    /// Copies a whole file of this machine.
    pub(super) fn copy(&mut self, path: &Path, file: &mut File) -> Outcome {
        let failed_here = |error| failed(path, &error);
        let bytes = file.metadata().map_err(failed_here)?.len();
        self.begin(None)?;
        self.append(file, Some(bytes), failed_here)
    }

    /// Returns the SHA-256 if it is the expected one; otherwise removes the file.
    pub(super) fn check(&self) -> Outcome<String> {
        self.bar.finish_and_clear();
        let found = checksum::hexadecimal(&self.digest.clone().finalize());
        if let Some(expected) = self.expected().filter(|expected| **expected != found) {
            self.discard();
            bail!(Data: "the download has the SHA-256 {found}, and {expected} was expected: it was deleted");
        }
        Ok(found)
    }

    /// Returns the expected SHA-256, if it is known.
    pub(super) fn expected(&self) -> Option<&String> {
        self.wanted.as_ref().or(self.reported.as_ref())
    }

    /// Prints a problem above the progress bar, or to standard error.
    pub(super) fn say(&self, what: &str) {
        if self.bar.is_hidden() {
            output::note(what);
        } else {
            self.bar.println(output::harmless(what));
        }
    }

    pub(super) fn discard(&self) {
        let _ = self.folder.remove(&self.name);
        let _ = self.folder.remove(&self.etag);
    }

    /// Gives the file its name, and records its checksum.
    pub(super) fn finish(self, found: &str) -> Outcome {
        let (folder, whole) = (self.folder, &self.whole);
        let sum = with_suffix(whole, checksum::RECORDED);
        let line = format!("{found}  {}\n", whole.to_string_lossy());
        // The service must be able to read it, even if another user owns it.
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
        folder.explain(whole, finished)
    }
}

/// Returns the progress bar, which is drawn on standard error if that is a terminal.
fn progress(name: &str) -> ProgressBar {
    let bar = ProgressBar::no_length();
    let style = "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    bar.set_message(output::harmless(name));
    bar
}

/// Locks the file for this run.
fn lock(folder: &Folder, whole: &OsStr, name: &OsStr, most: u64) -> Outcome<File> {
    loop {
        let file = folder.explain(name, folder.take(name, most))?;
        ensure!(
            file.try_lock().is_ok(),
            Busy: "{} is being fetched by another ganglionctl", folder.at(whole).display()
        );
        // Another run may have finished between open and lock: then this is the whole file.
        if folder.names(name, &file) {
            return Ok(file);
        }
    }
}
