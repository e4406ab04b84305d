//! The append-only file of one session.
//!
//! An entry that could not be written or synced is cut off before the next one follows. An entry that was reported
//! before its sync is written once more after a failed sync. When half of the file is obsolete, a compacted file
//! replaces it. A file on a read-only disk can still be read.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::brief::Brief;
use super::compact::compact;
use super::entry::Entry;
use super::error::StoreError;
use super::past::Past;
use super::record::{self, Rest, Tail, Unreadable};
use crate::files::{File, Files, NotAFile};

/// Smaller files are not compacted: they occupy only a few blocks of the disk.
const SMALL: u64 = 16 << 10;
/// The most bytes that an incomplete write leaves at the end of a file.
const OVERHANG: u64 = 64 << 20;

/// An open file of a session.
#[allow(clippy::struct_excessive_bools)] // four things that may each be so by themselves
#[derive(Debug)]
pub(super) struct Log {
    files: Arc<dyn Files>,
    path: PathBuf,
    file: Box<dyn File>,
    /// Whether the file is open for reading only, because the disk allows no writes.
    read_only: bool,
    /// The end of everything written.
    written: Tail,
    /// The end of everything known to be on the disk.
    synced: Tail,
    /// Whether the file may be longer than `written`.
    overhangs: bool,
    /// The bytes written since the last sync.
    unsynced: Vec<u8>,
    /// Whether a sync has failed. The system may have dropped the data, and reports the failure only once.
    doubtful: bool,
    /// Whether the file's name may still lead to its predecessor after a power cut.
    misnamed: bool,
    /// The length at which compaction is tried next.
    look_at: u64,
    /// The file's length, for readers that do not wait for the disk.
    bytes: Arc<AtomicU64>,
}

/// The result of reading a file.
#[derive(Debug)]
pub(super) enum Found {
    Whole(Log, Past),
    /// A whole conversation, followed by this number of bytes that no caller had a confirmation of. They are cut off.
    Torn(Log, Past, u64),
    /// The file was changed by something else, or is not a regular file.
    Damaged,
}

/// The result of reading a file's counts and times.
#[derive(Debug)]
pub(super) enum Scanned {
    Whole(Brief),
    /// The file was changed by something else, or is not a regular file.
    Damaged,
}

impl Log {
    /// Makes the file of a new session and waits until it is on the disk. After a power cut it is there as a whole or
    /// not at all.
    pub(super) fn create(
        files: &Arc<dyn Files>,
        path: &Path,
        opened: &Entry,
    ) -> Result<Self, StoreError> {
        let new = temporary(path);
        let made = (|| {
            let (bytes, tail) = encode(std::slice::from_ref(opened))?;
            let file = write(&**files, &new, &bytes)?;
            files.rename(&new, path)?;
            files.sync_folder(folder(path))?;
            Ok(Self::new(files, path, file, tail))
        })();
        made.map_err(|error| {
            // The session was not confirmed; the remains are removed when the folder is read.
            let _ = files.remove(&new);
            StoreError::io("write", path)(error)
        })
    }

    /// Wraps a file that is on the disk up to `tail`.
    fn new(files: &Arc<dyn Files>, path: &Path, file: Box<dyn File>, tail: Tail) -> Self {
        Self {
            files: files.clone(),
            path: path.to_owned(),
            file,
            read_only: false,
            written: tail,
            synced: tail,
            overhangs: false,
            unsynced: Vec::new(),
            doubtful: false,
            misnamed: false,
            look_at: SMALL,
            bytes: Arc::new(AtomicU64::new(tail.length)),
        }
    }

    /// Reads a file of this user and name, of at most `most` bytes.
    pub(super) fn read(
        files: &Arc<dyn Files>,
        path: &Path,
        (user, name): (u32, &str),
        most: u64,
    ) -> Result<Found, StoreError> {
        let failed = |what| StoreError::io(what, path);
        let (opened, read_only) = match files.open(path, false) {
            Err(error) if forbids_writes(&error) => (files.open_to_read(path), true),
            opened => (opened, false),
        };
        let mut file = match opened {
            Err(error) if NotAFile::is(&error) => return Ok(Found::Damaged),
            opened => opened.map_err(failed("open"))?,
        };
        let bytes = whole(&**files, path, &mut *file, most)?;
        let Some(read) = records(path, &bytes)? else {
            return Ok(Found::Damaged);
        };
        let past = entries(&bytes, read.texts);
        let past = past.and_then(|entries| Past::of(entries, user, name).ok());
        let (Some(past), Rest::Nothing | Rest::Torn) = (past, read.rest) else {
            return Ok(Found::Damaged);
        };
        let mut log = Self::new(files, path, file, read.tail);
        log.overhangs = read.rest == Rest::Torn;
        if read_only {
            // The first append cuts off a torn end.
            log.read_only = true;
            return Ok(Found::Whole(log, past));
        }
        let cut = bytes.len() as u64 - read.tail.length;
        // The data may be only in the system's memory if the daemon was killed before a sync.
        log.cut()
            .and_then(|()| log.file.sync())
            .map_err(failed("write"))?;
        Ok(match read.rest {
            Rest::Torn => Found::Torn(log, past, cut),
            _ => Found::Whole(log, past),
        })
    }

    /// Reads the counts and times of a file of this user and name, and changes nothing.
    pub(super) fn scan(
        files: &dyn Files,
        path: &Path,
        (user, name): (u32, &str),
        most: u64,
    ) -> Result<Scanned, StoreError> {
        let mut file = match files.open_to_read(path) {
            Err(error) if NotAFile::is(&error) => return Ok(Scanned::Damaged),
            opened => opened.map_err(StoreError::io("open", path))?,
        };
        let bytes = whole(files, path, &mut *file, most)?;
        let Some(read) = records(path, &bytes)? else {
            return Ok(Scanned::Damaged);
        };
        let texts = read.texts.into_iter().map(|text| &bytes[text]);
        let brief = Brief::of(texts, read.tail.length, user, name);
        let brief = brief.filter(|_| read.rest != Rest::Damaged);
        Ok(brief.map_or(Scanned::Damaged, Scanned::Whole))
    }

    /// Reads the written part of the file as the session of this user and name.
    ///
    /// # Errors
    /// As the system's, and if something else has changed the file.
    pub(super) fn past(&mut self, user: u32, name: &str) -> Result<Past, StoreError> {
        let failed = |error| StoreError::io("read", &self.path)(error);
        let most = self.written.length + OVERHANG;
        let bytes = self.file.read(most).map_err(failed)?;
        let length = usize::try_from(self.written.length).unwrap_or(usize::MAX);
        let written = &bytes[..length.min(bytes.len())];
        let read = record::read(written).ok();
        let read = read.filter(|read| read.tail == self.written);
        let past = read.and_then(|read| {
            let entries = entries(written, read.texts)?;
            Past::of(entries, user, name).ok()
        });
        past.ok_or_else(|| failed(changed()))
    }

    /// Returns the file's length as a shared counter.
    pub(super) fn bytes(&self) -> Arc<AtomicU64> {
        self.bytes.clone()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until entries can be appended. A file that was opened for reading only is opened for writing if the disk
    /// allows it by then.
    ///
    /// # Errors
    /// As the system's, and if the file has been replaced.
    pub(super) fn make_writable(&mut self) -> io::Result<()> {
        if !self.read_only {
            return Ok(());
        }
        let mut file = self.files.open(&self.path, false)?;
        let read = record::read(&file.read(self.written.length + OVERHANG)?).ok();
        if read.is_none_or(|read| read.tail != self.written) {
            return Err(changed());
        }
        (self.file, self.read_only) = (file, false);
        Ok(())
    }

    /// Whether confirmed entries may not reach the disk.
    pub(super) fn is_doubtful(&self) -> bool {
        self.doubtful
    }

    /// Writes an entry, which is on the disk after the next `sync`. On an error, nothing of it is in the file.
    pub(super) fn append(&mut self, entry: &Entry) -> io::Result<()> {
        self.make_writable()?;
        self.cut()?;
        if self.doubtful {
            // Nothing follows entries that may be lost.
            self.sync()?;
        }
        let text = serde_json::to_vec(entry)?;
        let after = self.written.record(&text, self.synced.records);
        let (bytes, after) = after.ok_or(io::ErrorKind::FileTooLarge)?;
        self.overhangs = true;
        self.file.write(self.written.length, &bytes)?;
        self.overhangs = false;
        self.unsynced.extend(bytes);
        self.has_written(after);
        Ok(())
    }

    fn has_written(&mut self, tail: Tail) {
        self.written = tail;
        self.bytes.store(tail.length, Ordering::Relaxed);
    }

    /// Waits until everything written is on the disk. After an error the state of the disk is unknown, and the next
    /// call writes the data once more: a later successful sync says nothing about data of a failed one.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.doubtful, true) {
            self.file.write(self.synced.length, &self.unsynced)?;
        }
        self.file.sync()?;
        self.keep_name()?;
        self.doubtful = false;
        self.unsynced.clear();
        self.synced = self.written;
        Ok(())
    }

    /// Discards everything written since the last `sync`.
    pub(super) fn discard_unsynced(&mut self) {
        self.has_written(self.synced);
        self.overhangs = true;
        self.unsynced.clear();
        self.doubtful = false;
    }

    /// Ends compaction of this file: its name may soon lead to another file or to none.
    pub(super) fn retire(&mut self) {
        self.look_at = u64::MAX;
    }

    /// Replaces the file by a compacted one if half of it is obsolete and all of it is on the disk.
    ///
    /// # Errors
    /// As the system's. Nothing is lost, and compaction is tried again at twice the length.
    pub(super) fn compact(&mut self) -> io::Result<()> {
        let is_whole = self.written == self.synced && !self.overhangs && !self.doubtful;
        if !is_whole || self.written.length < self.look_at {
            return Ok(());
        }
        self.look_at = 2 * self.written.length;
        let bytes = self.file.read(self.written.length)?;
        let read = record::read(&bytes).ok();
        // A foreign change of the file is detected when the session is opened.
        let read = read.filter(|read| read.tail == self.written);
        let live = read.and_then(|read| compact(entries(&bytes, read.texts)?));
        let Some(live) = live else {
            return Ok(());
        };
        let (bytes, tail) = encode(&live)?;
        if 2 * tail.length > self.written.length {
            self.look_at = SMALL.max(2 * tail.length);
            return Ok(());
        }
        let new = temporary(&self.path);
        let file = write(&*self.files, &new, &bytes);
        let named = file.and_then(|file| self.files.rename(&new, &self.path).map(|()| file));
        let file = named.inspect_err(|_| drop(self.files.remove(&new)))?;
        self.file = file;
        self.synced = tail;
        self.has_written(tail);
        self.look_at = SMALL.max(2 * tail.length);
        self.misnamed = true;
        self.keep_name()
    }

    /// Waits until the file's name leads to it on the disk. Until then, no entry is confirmed.
    fn keep_name(&mut self) -> io::Result<()> {
        if self.misnamed {
            self.files.sync_folder(folder(&self.path))?;
            self.misnamed = false;
        }
        Ok(())
    }

    /// Cuts off everything behind the written part.
    pub(super) fn cut(&mut self) -> io::Result<()> {
        if self.overhangs {
            self.file.cut(self.written.length)?;
            self.file.sync()?;
            self.overhangs = false;
        }
        Ok(())
    }
}

/// Encodes entries as a whole file. Each record says that all records before it are on the disk, so a reader never
/// accepts it without them.
fn encode(entries: &[Entry]) -> io::Result<(Vec<u8>, Tail)> {
    let (mut all, mut tail) = record::begin();
    for entry in entries {
        let text = serde_json::to_vec(entry)?;
        let after = tail.record(&text, tail.records);
        let (bytes, after) = after.ok_or(io::ErrorKind::FileTooLarge)?;
        all.extend(bytes);
        tail = after;
    }
    Ok((all, tail))
}

/// Makes a file under a temporary name and waits until all of it is on the disk.
fn write(files: &dyn Files, path: &Path, bytes: &[u8]) -> io::Result<Box<dyn File>> {
    let mut file = files.open(path, true)?;
    file.write(0, bytes)?;
    file.sync()?;
    Ok(file)
}

/// Reads all bytes of an open file of this process's user, of at most `most` bytes.
fn whole(
    files: &dyn Files,
    path: &Path,
    file: &mut dyn File,
    most: u64,
) -> Result<Vec<u8>, StoreError> {
    let failed = |error| StoreError::io("read", path)(error);
    let (owner, expected) = (file.owner().map_err(failed)?, files.user());
    if owner != expected {
        return Err(StoreError::Owner {
            path: path.to_owned(),
            owner,
            expected,
        });
    }
    file.read(most).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => StoreError::TooLong {
            path: path.to_owned(),
            bytes: file.stat().map_or(0, |(bytes, _)| bytes),
            most,
        },
        _ => failed(error),
    })
}

/// Splits a file into records; `None` if it does not begin as a session's file.
fn records(path: &Path, bytes: &[u8]) -> Result<Option<record::Read>, StoreError> {
    match record::read(bytes) {
        Ok(read) => Ok(Some(read)),
        Err(Unreadable::Head) => Ok(None),
        Err(Unreadable::Version(found)) => Err(StoreError::Version {
            path: path.to_owned(),
            found,
            known: record::VERSION,
        }),
    }
}

/// Parses the texts of records; `None` if one of them is not an entry.
fn entries(file: &[u8], texts: Vec<Range<usize>>) -> Option<Vec<Entry>> {
    let texts = texts.into_iter();
    let entries = texts.map(|text| serde_json::from_slice(&file[text]));
    entries.collect::<Result<_, _>>().ok()
}

/// The error for an open file that something else has changed.
fn changed() -> io::Error {
    let why = "something has changed it since it was opened; close the session and open it again";
    io::Error::new(io::ErrorKind::InvalidData, why)
}

fn forbids_writes(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), ReadOnlyFilesystem | PermissionDenied)
}

fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

/// The path of a file until it is complete.
fn temporary(path: &Path) -> PathBuf {
    path.with_extension(NEW)
}

/// Extensions of file names: of a session, of an unfinished file, and of a damaged file.
pub(super) const SESSION: &str = "session";
pub(super) const NEW: &str = "new";
pub(super) const DAMAGED: &str = "damaged";
