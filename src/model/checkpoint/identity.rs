//! Which files a model is, so that it can be told whether they were replaced. Nothing is read of them.

use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The files of a model as they were at one moment: the file, or all that lies in its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity(Vec<(PathBuf, [u64; 3], [i64; 2])>);

impl Identity {
    /// # Errors
    /// If something of it cannot be looked at.
    pub fn of(model: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(model)?;
        if !metadata.is_dir() {
            return Ok(Self(vec![entry(model.to_owned(), &metadata)]));
        }
        let mut entries = Vec::new();
        for file in fs::read_dir(model)? {
            let path = file?.path();
            let metadata = fs::metadata(&path)?;
            entries.push(entry(path, &metadata));
        }
        entries.sort();
        Ok(Self(entries))
    }
}

/// In any boot: devices are numbered anew.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(files) = self;
        files
            .iter()
            .try_for_each(|(path, [_, number, bytes], [seconds, nanoseconds])| {
                let path = path.display();
                write!(f, "{path} {number} {bytes} {seconds}.{nanoseconds:09} ")
            })
    }
}

/// Another file has another number; one that was written again, another time.
fn entry(path: PathBuf, metadata: &Metadata) -> (PathBuf, [u64; 3], [i64; 2]) {
    let numbers = [metadata.dev(), metadata.ino(), metadata.len()];
    (path, numbers, [metadata.mtime(), metadata.mtime_nsec()])
}
