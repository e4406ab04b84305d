//! The measured speed of reading the model's files from the disk, and their presence in the page cache.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use nix::fcntl::{OFlag, PosixFadviseAdvice, posix_fadvise};

use super::memory::available;
use crate::model::checkpoint;

/// The most bytes that are read of a file, so that a slow disk takes seconds and not minutes.
const LONGEST: u64 = 1 << 30;
/// The size of one read. Address, offset and length of a read are multiples of a block.
const PIECE: usize = 4 << 20;
const BLOCK: usize = 4096;
/// The number of concurrent reads.
const READERS: usize = 4;

/// The files that hold a model's weights, each with its length.
pub(super) struct Files(Vec<(PathBuf, u64)>);

impl Files {
    pub(super) fn of(model: &Path) -> io::Result<Self> {
        let mut files = checkpoint::files_of(model);
        files.retain(|file| file.extension().is_none_or(|end| end != "json"));
        let lengths = files.into_iter().map(|file| {
            let length = fs::metadata(&file)?.len();
            Ok((file, length))
        });
        Ok(Self(lengths.collect::<io::Result<_>>()?))
    }

    pub(super) fn bytes(&self) -> u64 {
        self.0.iter().map(|(_, length)| length).sum()
    }

    /// Removes the files from the page cache, as after a boot.
    pub(super) fn drop_from_cache(&self) -> io::Result<()> {
        for (path, _) in &self.0 {
            let file = File::open(path)?;
            // The page cache keeps pages that are not written yet.
            file.sync_data()?;
            posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
        }
        Ok(())
    }

    /// Reads the files into the page cache; returns whether they fit next to the model.
    pub(super) fn read_into_cache(&self) -> bool {
        let has_room = available().is_some_and(|bytes| bytes / 3 >= self.bytes());
        let read = |path| io::copy(&mut File::open(path)?, &mut io::sink());
        has_room && self.0.iter().all(|(path, _)| read(path).is_ok())
    }

    /// Returns the bytes per second of reading the largest file around the page cache with several concurrent reads;
    /// `None` where its file system does not allow that.
    pub(super) fn disk(&self) -> Option<f64> {
        let (path, length) = self.0.iter().max_by_key(|(_, length)| length)?;
        let end = (*length).min(LONGEST);
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(OFlag::O_DIRECT.bits());
        let file = options.open(path).ok()?;
        let next = AtomicU64::new(0);
        let start = Instant::now();
        let read = thread::scope(|scope| {
            let readers = [(); READERS].map(|()| scope.spawn(|| read(&file, &next, end)));
            let ended = readers.into_iter().map(|reader| reader.join().ok()?.ok());
            ended.sum::<Option<u64>>()
        })?;
        #[allow(clippy::cast_precision_loss)] // shown to three digits
        let speed = read as f64 / start.elapsed().as_secs_f64();
        (read > 0).then_some(speed)
    }
}

/// Reads pieces from the shared counter up to byte `end`; returns the bytes read.
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
