//! A file on its way: `FILE.part` and what it was part of, until it is whole.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{self, Read, Seek as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};
use sha2::{Digest as _, Sha256};

use super::{Folder, failed};
use crate::checksum::{self, beside};
use crate::failure::{Failure, Outcome, bail, ensure};
use crate::output;

/// Bytes that are read at a time.
const PIECE: usize = 1 << 18;

/// Bytes of `FILE.part.etag`: a longer one is not ours.
const ETAG: u64 = 4096;

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
    /// The SHA-256 that it must have, if somebody said so, and that which a server tells.
    pub(super) wanted: Option<String>,
    told: Option<String>,
    /// The digest of what is in it.
    digest: Sha256,
    pub(super) length: u64,
    bar: ProgressBar,
}

impl<'a> Part<'a> {
    /// Takes up what an earlier run left of a file of at most `most` bytes.
    pub(super) fn open(
        folder: &'a Folder,
        whole: &OsStr,
        most: u64,
        wanted: Option<String>,
    ) -> Outcome<Self> {
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
            wanted,
            told: None,
            digest,
            length,
            bar: progress(&whole.to_string_lossy()),
        })
    }

    /// Where it can be read, whatever has its name now.
    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
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
        ensure!(
            total <= self.most,
            Data: "{}: {total} bytes would come, and at most {} were expected: it was not fetched",
            self.folder.at(&self.whole).display(), self.most
        );
        let more = total.saturating_sub(self.length);
        let free = self.folder.free().unwrap_or(u64::MAX);
        ensure!(
            more <= free,
            Failed: "{}: {} MiB are still to come and {} MiB are free: make room, or name another disk with --dir",
            self.folder.path.display(), more.div_ceil(1 << 20), free >> 20
        );
        Ok(())
    }

    /// Hears what a server tells of the whole.
    pub(super) fn hear(&mut self, sha256: Option<String>, bytes: Option<u64>) -> Outcome {
        self.told = sha256;
        if let Some(bytes) = bytes {
            self.make_sure_of(bytes)?;
            self.most = self.most.min(bytes);
        }
        Ok(())
    }

    /// Appends all that comes of a whole of so many bytes, up to what may come in all: what goes on beyond that is not kept.
    /// What it means that no more can be read is for `cut` to say.
    pub(super) fn append(
        &mut self,
        from: &mut impl Read,
        total: Option<u64>,
        cut: impl Fn(io::Error) -> Failure,
    ) -> Outcome {
        self.bar.set_length(total.unwrap_or(0));
        if let Some(total) = total {
            self.make_sure_of(total)?;
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
                bail!(Data: "{whole}: more came than the {most} bytes that were expected: it was not kept");
            }
            let written = self.file.write_all(&piece[..read]);
            if written.is_err() {
                // What came in part would not be known by its digest.
                let _ = self.file.set_len(self.length);
            }
            self.folder.told(&self.name, written)?;
            self.digest.update(&piece[..read]);
            self.length += read as u64;
            self.bar.set_position(self.length);
        }
    }

    /// Takes a file of this machine, which is whole.
    pub(super) fn copy(&mut self, path: &Path, file: &mut File) -> Outcome {
        let told = |error| failed(path, &error);
        let bytes = file.metadata().map_err(told)?.len();
        self.begin(None)?;
        self.append(file, Some(bytes), told)
    }

    /// Its SHA-256, once it is as expected; otherwise it is not kept.
    pub(super) fn check(&self) -> Outcome<String> {
        self.bar.finish_and_clear();
        let found = checksum::hexadecimal(&self.digest.clone().finalize());
        if let Some(expected) = self.expected().filter(|expected| **expected != found) {
            self.discard();
            bail!(Data: "what came has the SHA-256 {found}, and {expected} was expected: it was not kept");
        }
        Ok(found)
    }

    /// The SHA-256 that it should have, as far as anybody tells.
    pub(super) fn expected(&self) -> Option<&String> {
        self.wanted.as_ref().or(self.told.as_ref())
    }

    /// Says above the bar what goes wrong; where no bar is drawn, all the same.
    pub(super) fn say(&self, what: &str) {
        if self.bar.is_hidden() {
            output::tell(what);
        } else {
            self.bar.println(output::harmless(what));
        }
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

/// The bar that shows how much has come, on standard error where that is a terminal.
fn progress(name: &str) -> ProgressBar {
    let bar = ProgressBar::no_length();
    let style = "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    bar.set_message(output::harmless(name));
    bar
}

/// The part, for this run alone.
fn lock(folder: &Folder, whole: &OsStr, name: &OsStr, most: u64) -> Outcome<File> {
    loop {
        let file = folder.told(name, folder.take(name, most))?;
        ensure!(
            file.try_lock().is_ok(),
            Busy: "{} is being fetched by another ganglionctl", folder.at(whole).display()
        );
        // Another run may have finished between the two: then this is the whole file.
        if folder.names(name, &file) {
            return Ok(file);
        }
    }
}
