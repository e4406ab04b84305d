//! Caches compiled kernels by content outside the build folder, so that clones, branches and profiles share them.
//!
//! The folder is `$GANGLION_KERNEL_CACHE`, or `ganglion/kernels` in `$XDG_CACHE_HOME` or `~/.cache`. The value `off`
//! disables the cache. A folder that cannot be read or written counts as an empty cache.

use std::fs::{self, File};
use std::path::PathBuf;
use std::time::SystemTime;
use std::{env, process};

/// The bound on the size of the folder.
const MAX_BYTES: u64 = 256 << 20;

pub(crate) struct BuildCache(Option<PathBuf>);

impl BuildCache {
    pub(crate) fn open() -> Self {
        let variable = |name| env::var_os(name).filter(|value| !value.is_empty());
        let user_cache = || {
            let cache = variable("XDG_CACHE_HOME").map(PathBuf::from);
            let cache = cache.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".cache")))?;
            Some(cache.join("ganglion/kernels"))
        };
        Self(match variable("GANGLION_KERNEL_CACHE") {
            Some(value) if value == "off" => None,
            Some(folder) => Some(folder.into()),
            None => user_cache(),
        })
    }

    /// Returns the bytes of an entry and marks it as used.
    pub(crate) fn get(&self, key: &str) -> Option<Vec<u8>> {
        let path = self.0.as_ref()?.join(key);
        // A power cut can leave an empty file.
        let bytes = fs::read(&path).ok().filter(|bytes| !bytes.is_empty())?;
        // The access time would do, but many file systems do not record it.
        if let Ok(file) = File::options().append(true).open(path) {
            let _ = file.set_modified(SystemTime::now());
        }
        Some(bytes)
    }

    /// Adds an entry. Builds in parallel see the whole entry or none.
    pub(crate) fn put(&self, key: &str, bytes: &[u8]) {
        let Some(folder) = &self.0 else { return };
        let part = folder.join(format!("{key}.{}.part", process::id()));
        let written = fs::create_dir_all(folder)
            .and_then(|()| fs::write(&part, bytes))
            .and_then(|()| fs::rename(&part, folder.join(key)));
        if written.is_err() {
            let _ = fs::remove_file(part);
        }
    }

    /// Removes the least recently used files until the folder is within its bound.
    pub(crate) fn trim(&self) {
        let Some(entries) = self.0.as_ref().and_then(|folder| fs::read_dir(folder).ok()) else {
            return;
        };
        let mut files: Vec<_> = entries
            .flatten()
            .filter_map(|entry| {
                let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
                Some((metadata.modified().ok()?, metadata.len(), entry.path()))
            })
            .collect();
        files.sort();
        let mut total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, bytes, path) in files {
            if total <= MAX_BYTES {
                break;
            }
            let _ = fs::remove_file(path);
            total -= bytes;
        }
    }
}
