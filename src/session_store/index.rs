//! The index of a user's folder: what there is to say of each session, so that after a start nobody waits until all files are
//! read.
//!
//! An entry is of a file with a certain length and time of its last change; of any other the file itself is read. So nothing
//! depends on the index but time: one that is missing, damaged or old, after a kill or a power cut, is written anew.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::brief::Brief;
use super::record;
use crate::files::{File, Files};

/// Its name, which no session's file has, and the name of one that is being written.
const INDEX: &str = "index";
const UNFINISHED: &str = "index-new";
/// The most bytes of an index: many more than the most sessions of a user take.
const LONGEST: u64 = 16 << 20;

/// What tells a version of a file from another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    bytes: u64,
    /// Nanoseconds since 1970.
    changed: u64,
}

impl Stamp {
    /// The stamp of an open file that is this process's own.
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

/// A line: name, stamp (bytes, changed), and turns, bytes, began and used of the session.
type Line = (String, [u64; 2], [u64; 4]);

/// What an index says.
#[derive(Debug, Default)]
pub(super) struct Index(HashMap<String, (Stamp, Brief)>);

impl Index {
    /// Reads the index of a folder; without one it says nothing.
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

    /// What it says of a session whose file is that one.
    pub(super) fn find(&self, files: &dyn Files, path: &Path, name: &str) -> Option<Brief> {
        let (stamp, brief) = self.0.get(name)?;
        let file = files.open_to_read(path).ok()?;
        (Stamp::of(files, &*file)? == *stamp).then_some(*brief)
    }

    /// Writes an index. It is not synced: a power cut costs the time to write it anew.
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

    /// Where it lies.
    pub(super) fn path(folder: &Path) -> PathBuf {
        folder.join(INDEX)
    }
}
