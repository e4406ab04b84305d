//! Small files below a root, read with a bound of size and without waiting. A file that cannot be used is absent.

use std::fs::{self, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use nix::fcntl::OFlag;

/// The most bytes of a value in /sys, where a file has one page.
const VALUE: u64 = 4096;
/// The most bytes of a configuration file.
const TEXT: u64 = 256 << 10;
/// The most entries of a folder.
const ENTRIES: usize = 512;

/// The files below a folder, which is `/` for this machine. Paths are relative to it.
#[derive(Clone, Debug)]
pub(super) struct Files {
    root: PathBuf,
}

impl Files {
    pub(super) fn new(root: &Path) -> Self {
        let root = root.to_owned();
        Self { root }
    }

    /// Returns the value of a file, without surrounding white space.
    pub(super) fn value(&self, path: impl AsRef<Path>) -> Option<String> {
        let text = self.read(path.as_ref(), VALUE)?;
        let around = |c: char| c.is_whitespace() || c == '\0';
        Some(text.trim_matches(around).to_owned())
    }

    /// Returns the number in a file.
    pub(super) fn number<N: FromStr>(&self, path: impl AsRef<Path>) -> Option<N> {
        self.value(path)?.parse().ok()
    }

    /// Returns the text of a longer file.
    pub(super) fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        self.read(path.as_ref(), TEXT)
    }

    fn read(&self, path: &Path, most: u64) -> Option<String> {
        // A pipe without a writer would make its reader wait.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(OFlag::O_NONBLOCK.bits())
            .open(self.root.join(path))
            .ok()?;
        let mut bytes = Vec::new();
        file.take(most + 1).read_to_end(&mut bytes).ok()?;
        let fits = bytes.len() as u64 <= most;
        fits.then(|| String::from_utf8(bytes).ok())?
    }

    /// Returns the paths of the entries of a folder whose names are `start` and a number, with that number, in its order.
    pub(super) fn numbered(&self, folder: &str, start: &str) -> Vec<(u32, PathBuf)> {
        let names = self.names(folder).into_iter();
        let mut numbered: Vec<_> = names
            .filter_map(|name| {
                let number = name.strip_prefix(start)?.parse().ok()?;
                Some((number, Path::new(folder).join(name)))
            })
            .collect();
        numbered.sort();
        numbered
    }

    /// Returns the names of a folder's entries.
    pub(super) fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(folder));
        let entries = entries.into_iter().flatten().take(ENTRIES).flatten();
        let mut names: Vec<_> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }
}
