//! The file of one session: entries are appended to it and nothing else. What could not be written, or not be synced, is
//! cut off again before anything follows it; what somebody was told of before it was synced is written again. Once half of it is
//! of no use any more, another file that says the same takes its place. Where nothing may be written it is read all the same.

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

/// A file of fewer bytes is not worth a look: it takes a few blocks of the disk.
const SMALL: u64 = 16 << 10;
/// The most bytes that a write which was never whole leaves at the end of a file.
const OVERHANG: u64 = 64 << 20;

/// An open file of a session.
#[allow(clippy::struct_excessive_bools)] // four things that may each be so by themselves
#[derive(Debug)]
pub(super) struct Log {
    files: Arc<dyn Files>,
    path: PathBuf,
    file: Box<dyn File>,
    /// Whether it is open only to be read, where the disk takes no writes.
    read_only: bool,
    /// This is the end of all that was written.
    written: Tail,
    /// This is the end of all that is known to be on the disk.
    synced: Tail,
    /// Whether there may be more in the file than was written.
    overhangs: bool,
    /// What was written since the last sync.
    unsynced: Vec<u8>,
    /// Whether a sync of it has failed: the system may have dropped it, and says so once.
    doubtful: bool,
    /// Whether its name may still be another file's after a power cut.
    misnamed: bool,
    /// How long it is before it is looked at again for what is of no use.
    look_at: u64,
    /// Its length, for those who do not wait for the disk.
    bytes: Arc<AtomicU64>,
}

/// What was found in a file.
#[derive(Debug)]
pub(super) enum Found {
    Whole(Log, Past),
    /// The same, with bytes at its end that nobody was told of: they are cut off.
    Torn(Log, Past, u64),
    /// Something has changed it, or it is no file.
    Damaged,
}

/// What there is to say of a file that nobody opens.
#[derive(Debug)]
pub(super) enum Scanned {
    Whole(Brief),
    /// Something has changed it, or it is no file.
    Damaged,
}

impl Log {
    /// Makes the file of a new session, and returns when it is on the disk: after a power cut there is all of it or none.
    pub(super) fn create(
        files: &Arc<dyn Files>,
        path: &Path,
        opened: &Entry,
    ) -> Result<Self, StoreError> {
        let new = fresh(path);
        let made = (|| {
            let (bytes, tail) = encode(std::slice::from_ref(opened))?;
            let file = write(&**files, &new, &bytes)?;
            files.rename(&new, path)?;
            files.sync_folder(folder(path))?;
            Ok(Self::new(files, path, file, tail))
        })();
        made.map_err(|error| {
            // Nobody was told of it; what is left of it goes when its folder is read.
            let _ = files.remove(&new);
            StoreError::io("write", path)(error)
        })
    }

    /// One that is on the disk up to there.
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

    /// Reads a file of this user and name, of at most so many bytes.
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
            // What is torn is cut off before anything follows it.
            log.read_only = true;
            return Ok(Found::Whole(log, past));
        }
        let cut = bytes.len() as u64 - read.tail.length;
        // What was read may be in the system's memory alone, if the daemon was killed before it was synced.
        log.cut()
            .and_then(|()| log.file.sync())
            .map_err(failed("write"))?;
        Ok(match read.rest {
            Rest::Torn => Found::Torn(log, past, cut),
            _ => Found::Whole(log, past),
        })
    }

    /// Reads as much of a file of this user and name as there is to say of it. The file stays as it is.
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

    /// Reads what was written to it so far, as the session of this user and name.
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

    /// Bytes of it, as they change.
    pub(super) fn bytes(&self) -> Arc<AtomicU64> {
        self.bytes.clone()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns when entries can be appended; of a file that was open only to be read, when the disk takes writes by now.
    ///
    /// # Errors
    /// As the system's, and if it is another file now.
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

    /// Whether what was written may not get to the disk, although somebody was told of it.
    pub(super) fn is_doubtful(&self) -> bool {
        self.doubtful
    }

    /// Writes an entry, which is on the disk after the next `sync`. On an error nothing of it is.
    pub(super) fn append(&mut self, entry: &Entry) -> io::Result<()> {
        self.make_writable()?;
        self.cut()?;
        if self.doubtful {
            // Nothing follows what may be lost.
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

    /// Returns when all that was written is on the disk. On an error nobody knows what of it is, and the next call writes it
    /// again: a sync that succeeds after one that failed says nothing of what came before.
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

    /// Nothing that was written since the last `sync` counts any more.
    pub(super) fn take_back(&mut self) {
        self.has_written(self.synced);
        self.overhangs = true;
        self.unsynced.clear();
        self.doubtful = false;
    }

    /// Its name may be another file's from now on, or none's: it is never looked at again, and nothing takes its place.
    pub(super) fn retire(&mut self) {
        self.look_at = u64::MAX;
    }

    /// Has a file take its place that says the same, if half of this one is of no use any more. All of it is on the disk.
    ///
    /// # Errors
    /// As the system's. Nothing is lost then, and it is tried again when it is twice as long.
    pub(super) fn compact(&mut self) -> io::Result<()> {
        let is_whole = self.written == self.synced && !self.overhangs && !self.doubtful;
        if !is_whole || self.written.length < self.look_at {
            return Ok(());
        }
        self.look_at = 2 * self.written.length;
        let bytes = self.file.read(self.written.length)?;
        let read = record::read(&bytes).ok();
        // What has changed since it was written is found when it is read the next time.
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
        let new = fresh(&self.path);
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

    /// Returns when its name is its own on the disk. Until then nobody is told that what it holds is there.
    fn keep_name(&mut self) -> io::Result<()> {
        if self.misnamed {
            self.files.sync_folder(folder(&self.path))?;
            self.misnamed = false;
        }
        Ok(())
    }

    /// Takes away what should not be there.
    pub(super) fn cut(&mut self) -> io::Result<()> {
        if self.overhangs {
            self.file.cut(self.written.length)?;
            self.file.sync()?;
            self.overhangs = false;
        }
        Ok(())
    }
}

/// A whole file of these entries. Each record says of those before it that they are on the disk: none is ever seen without them.
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

/// Makes a file that has not its name yet, and returns when all of it is on the disk.
fn write(files: &dyn Files, path: &Path, bytes: &[u8]) -> io::Result<Box<dyn File>> {
    let mut file = files.open(path, true)?;
    file.write(0, bytes)?;
    file.sync()?;
    Ok(file)
}

/// All bytes of an open file that is this process's own, if there are at most so many.
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

/// The records of a file; `None` if it does not begin as a session's does.
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

/// What records say; `None` if one of them says nothing.
fn entries(file: &[u8], texts: Vec<Range<usize>>) -> Option<Vec<Entry>> {
    let texts = texts.into_iter();
    let entries = texts.map(|text| serde_json::from_slice(&file[text]));
    entries.collect::<Result<_, _>>().ok()
}

/// The error of an open file that something else has changed.
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

/// Where a file is until all of it is there.
fn fresh(path: &Path) -> PathBuf {
    path.with_extension(NEW)
}

/// Ends of the names of files: of a session, of one that is being made, and of one that was set aside.
pub(super) const SESSION: &str = "session";
pub(super) const NEW: &str = "new";
pub(super) const DAMAGED: &str = "damaged";
