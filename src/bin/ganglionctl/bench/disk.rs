//! The disk's ceiling: how fast the model's own files can be read from it, and whether the page cache has them.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use nix::fcntl::{OFlag, PosixFadviseAdvice, posix_fadvise};

use super::memory::Available;

/// Read of a file, at most: a slow disk is to take seconds and no minutes.
const LONGEST: u64 = 1 << 30;
/// Of one read, and what its memory, place and length are multiples of.
const PIECE: usize = 4 << 20;
const BLOCK: usize = 4096;
/// Reads in flight.
const READERS: usize = 4;

/// The files that hold a model's weights.
pub(crate) struct Files(Vec<PathBuf>);

impl Files {
    /// A file, or those of a directory.
    pub(crate) fn of(model: &Path) -> io::Result<Self> {
        if !model.is_dir() {
            return Ok(Self(vec![model.to_owned()]));
        }
        let mut files = Vec::new();
        for entry in model.read_dir()? {
            let path = entry?.path();
            if path.extension().is_some_and(|name| name == "safetensors") {
                files.push(path);
            }
        }
        Ok(Self(files))
    }

    pub(crate) fn bytes(&self) -> io::Result<u64> {
        let lengths = self.0.iter().map(fs::metadata);
        lengths
            .map(|metadata| metadata.map(|metadata| metadata.len()))
            .sum()
    }

    /// Has the page cache forget them, as after the machine's start.
    pub(crate) fn forget(&self) -> io::Result<()> {
        for path in &self.0 {
            let file = File::open(path)?;
            // What has not been written yet is not forgotten.
            file.sync_data()?;
            posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
        }
        Ok(())
    }

    /// Has the page cache hold them; `None` if there is no room for them beside the model.
    pub(crate) fn remember(&self) -> Option<()> {
        let bytes = self.bytes().ok()?;
        if Available::new()?.read()? / 3 < bytes {
            return None;
        }
        for path in &self.0 {
            io::copy(&mut File::open(path).ok()?, &mut io::sink()).ok()?;
        }
        Some(())
    }

    /// Bytes per second of reading the largest of them around the page cache, from its start on, several reads in flight;
    /// `None` where its file system does not allow that.
    pub(crate) fn disk(&self) -> Option<f64> {
        let length = |path: &PathBuf| fs::metadata(path).map_or(0, |metadata| metadata.len());
        let path = self.0.iter().max_by_key(|path| length(path))?;
        let bytes = length(path).min(LONGEST);
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(OFlag::O_DIRECT.bits());
        let file = options.open(path).ok()?;
        let next = AtomicU64::new(0);
        let start = Instant::now();
        let read = thread::scope(|scope| {
            let readers: Vec<_> = (0..READERS)
                .map(|_| scope.spawn(|| read(&file, &next, bytes)))
                .collect();
            let ended = readers.into_iter().map(|reader| reader.join().ok()?.ok());
            ended.sum::<Option<u64>>()
        })?;
        #[allow(clippy::cast_precision_loss)] // shown to three digits
        let speed = read as f64 / start.elapsed().as_secs_f64();
        (read > 0).then_some(speed)
    }
}

/// Reads pieces that nobody else has taken, up to byte `end`; how much that was.
fn read(file: &File, next: &AtomicU64, end: u64) -> io::Result<u64> {
    let mut memory = vec![0; PIECE + BLOCK];
    let start = memory.as_ptr().align_offset(BLOCK).min(BLOCK);
    let memory = &mut memory[start..][..PIECE];
    let mut read = 0;
    loop {
        let at = next.fetch_add(PIECE as u64, Ordering::Relaxed);
        if at >= end {
            return Ok(read);
        }
        read += file.read_at(memory, at)? as u64;
    }
}
