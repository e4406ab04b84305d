//! The file of one session: entries are appended to it and nothing else. What could not be written, or not be synced, is
//! cut off again before anything follows it; what somebody was told of before it was synced is written again.

use std::io;
use std::path::{Path, PathBuf};

use super::entry::Entry;
use super::error::StoreError;
use super::past::Past;
use super::record::{self, Place, Rest, Unreadable};
use crate::files::{File, Files};

/// An open file of a session.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    file: Box<dyn File>,
    /// After all that was written.
    written: Place,
    /// After all that is known to be on the disk.
    synced: Place,
    /// Whether there may be more in the file than was written.
    overhangs: bool,
    /// What was written since the last sync.
    unsynced: Vec<u8>,
    /// Whether a sync of it has failed: the system may have dropped it, and says so once.
    doubtful: bool,
}

/// What was found in a file.
#[derive(Debug)]
pub(super) enum Found {
    Whole(Log, Past),
    /// The same, with bytes at its end that nobody was told of: they are cut off.
    Torn(Log, Past, u64),
    /// Something has changed it.
    Damaged,
}

impl Log {
    /// Makes the file of a new session, and returns when it is on the disk: after a power cut there is all of it or none.
    pub(super) fn create(
        files: &dyn Files,
        path: &Path,
        opened: &Entry,
    ) -> Result<Self, StoreError> {
        let (folder, new) = (folder(path), fresh(path));
        let made = (|| {
            let mut file = files.open(&new, true)?;
            let (head, place) = record::begin();
            file.write(0, &head)?;
            let mut log = Self {
                path: path.to_owned(),
                file,
                written: place,
                synced: place,
                overhangs: false,
                unsynced: Vec::new(),
                doubtful: false,
            };
            log.append(opened)?;
            log.sync()?;
            files.rename(&new, path)?;
            files.sync_folder(folder)?;
            Ok(log)
        })();
        made.map_err(|error| {
            // Nobody was told of it; what is left of it goes when its folder is read.
            let _ = files.remove(&new);
            StoreError::io("write", path)(error)
        })
    }

    /// Reads a file of this user and name.
    pub(super) fn read(
        files: &dyn Files,
        path: &Path,
        user: u32,
        name: &str,
    ) -> Result<Found, StoreError> {
        let failed = |what| StoreError::io(what, path);
        let mut file = files.open(path, false).map_err(failed("open"))?;
        let (owner, expected) = (file.owner().map_err(failed("read"))?, files.user());
        if owner != expected {
            return Err(StoreError::Owner {
                path: path.to_owned(),
                owner,
                expected,
            });
        }
        let bytes = file.read().map_err(failed("read"))?;
        let read = match record::read(&bytes) {
            Ok(read) => read,
            Err(Unreadable::Head) => return Ok(Found::Damaged),
            Err(Unreadable::Version(found)) => {
                return Err(StoreError::Version {
                    path: path.to_owned(),
                    found,
                    known: record::VERSION,
                });
            }
        };
        let texts = read.texts.into_iter();
        let entries = texts.map(|text| serde_json::from_slice(&bytes[text]));
        let entries: Result<Vec<Entry>, _> = entries.collect();
        let past = entries
            .ok()
            .and_then(|entries| Past::of(entries, user, name).ok());
        let (Some(past), Rest::Nothing | Rest::Torn) = (past, read.rest) else {
            return Ok(Found::Damaged);
        };
        let mut log = Self {
            path: path.to_owned(),
            file,
            written: read.place,
            synced: read.place,
            overhangs: read.rest == Rest::Torn,
            unsynced: Vec::new(),
            doubtful: false,
        };
        let cut = bytes.len() as u64 - read.place.length;
        // What was read may be in the system's memory alone, if the daemon was killed before it was synced.
        log.cut()
            .and_then(|()| log.file.sync())
            .map_err(failed("write"))?;
        Ok(match read.rest {
            Rest::Torn => Found::Torn(log, past, cut),
            _ => Found::Whole(log, past),
        })
    }

    /// Bytes of it.
    pub(super) fn length(&self) -> u64 {
        self.written.length
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether what was written may not get to the disk, although somebody was told of it.
    pub(super) fn is_doubtful(&self) -> bool {
        self.doubtful
    }

    /// Writes an entry, which is on the disk after the next `sync`. On an error nothing of it is.
    pub(super) fn append(&mut self, entry: &Entry) -> io::Result<()> {
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
        self.written = after;
        Ok(())
    }

    /// Returns when all that was written is on the disk. On an error nobody knows what of it is, and the next call writes it
    /// again: a sync that succeeds after one that failed says nothing of what came before.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.doubtful, true) {
            self.file.write(self.synced.length, &self.unsynced)?;
        }
        self.file.sync()?;
        self.doubtful = false;
        self.unsynced.clear();
        self.synced = self.written;
        Ok(())
    }

    /// Nothing that was written since the last `sync` counts any more.
    pub(super) fn take_back(&mut self) {
        self.written = self.synced;
        self.overhangs = true;
        self.unsynced.clear();
        self.doubtful = false;
    }

    /// Takes away what should not be there.
    fn cut(&mut self) -> io::Result<()> {
        if self.overhangs {
            self.file.cut(self.written.length)?;
            self.file.sync()?;
            self.overhangs = false;
        }
        Ok(())
    }
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
