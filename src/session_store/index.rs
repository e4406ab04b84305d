//! The index of a user's folder: the counts and times of each session, so that a start need not read every file.
//!
//! An entry is valid for a file with the recorded length and modification time; otherwise the file itself is read. A
//! missing, damaged or old index costs only time, and is rebuilt.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::brief::Brief;
use super::record;
use crate::files::{File, Files};

/// The name of the index, which no session's file can have, and of an index that is being written.
const INDEX: &str = "index";
const UNFINISHED: &str = "index-new";
/// The most bytes of an index, far above the need of the largest number of sessions.
const LONGEST: u64 = 16 << 20;

/// Identifies a version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    bytes: u64,
    /// Nanoseconds since 1970.
    changed: u64,
}

impl Stamp {
    /// Returns the stamp of an open file of this process's user.
    pub(super) fn of(files: &dyn Files, file: &dyn File) -> Option<Self> {
        if file.owner().ok()? != files.user() {
            return None;
        }
        let (bytes, changed) = file.stat().ok()?;
        let since = changed.duration_since(UNIX_EPOCH).ok()?;
        Some(Self {
            bytes,
            changed: u64::try_from(since.as_nanos()).ok()?,
        })
    }
}

/// A line: name, stamp (bytes, modification time), and turns, bytes, began and used of the session.
type Line = (String, [u64; 2], [u64; 4]);

/// The entries of an index by session name.
#[derive(Debug, Default)]
pub(super) struct Index(HashMap<String, (Stamp, Brief)>);

impl Index {
    /// Reads the index of a folder; empty if there is none.
    pub(super) fn read(files: &dyn Files, folder: &Path) -> Self {
        let lines = || {
            let mut file = files.open_to_read(&folder.join(INDEX)).ok()?;
            Stamp::of(files, &*file)?;
            let bytes = file.read(LONGEST).ok()?;
            let read = record::read(&bytes).ok()?;
            let text = read.texts.first()?.clone();
            serde_json::from_slice::<Vec<Line>>(&bytes[text]).ok()
        };
        let entry = |(name, [bytes, changed], [turns, whole, began, used]): Line| {
            let brief = Brief {
                turns: u32::try_from(turns).unwrap_or(u32::MAX),
                bytes: whole,
                began,
                used,
            };
            (name, (Stamp { bytes, changed }, brief))
        };
        Self(lines().into_iter().flatten().map(entry).collect())
    }

    /// Returns the entry of a session if it is valid for the file at `path`.
    pub(super) fn find(&self, files: &dyn Files, path: &Path, name: &str) -> Option<Brief> {
        let (stamp, brief) = self.0.get(name)?;
        let file = files.open_to_read(path).ok()?;
        (Stamp::of(files, &*file)? == *stamp).then_some(*brief)
    }

    /// Writes an index without a sync: after a power cut it is rebuilt.
    pub(super) fn write(
        files: &dyn Files,
        folder: &Path,
        sessions: impl Iterator<Item = (String, Stamp, Brief)>,
    ) -> io::Result<()> {
        let line = |(name, stamp, brief): (String, Stamp, Brief)| -> Line {
            let Brief {
                turns,
                bytes,
                began,
                used,
            } = brief;
            let stamp = [stamp.bytes, stamp.changed];
            (name, stamp, [turns.into(), bytes, began, used])
        };
        let lines: Vec<Line> = sessions.map(line).collect();
        let (mut bytes, tail) = record::begin();
        let text = tail.record(&serde_json::to_vec(&lines)?, 0);
        bytes.extend(text.ok_or(io::ErrorKind::FileTooLarge)?.0);
        let new = folder.join(UNFINISHED);
        let written = files
            .open(&new, true)
            .and_then(|mut file| file.write(0, &bytes));
        let named = written.and_then(|()| files.rename(&new, &Self::path(folder)));
        named.inspect_err(|_| drop(files.remove(&new)))
    }

    /// Returns the path of a folder's index.
    pub(super) fn path(folder: &Path) -> PathBuf {
        folder.join(INDEX)
    }
}
