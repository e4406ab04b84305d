//! The disk's ceiling: how fast the model's own files can be read from it, and whether the page cache has them.

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

/// No more bytes of a file are read: a slow disk is to take seconds and no minutes.
const LONGEST: u64 = 1 << 30;
/// One read takes so many bytes; its memory, its place and its length are multiples of a block.
const PIECE: usize = 4 << 20;
const BLOCK: usize = 4096;
/// So many reads are in flight at once.
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

    /// Has the page cache forget them, as after the machine's start.
    pub(super) fn forget(&self) -> io::Result<()> {
        for (path, _) in &self.0 {
            let file = File::open(path)?;
            // What has not been written yet is not forgotten.
            file.sync_data()?;
            posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
        }
        Ok(())
    }

    /// Has the page cache hold them; whether there is room for them beside the model.
    pub(super) fn remember(&self) -> bool {
        let has_room = available().is_some_and(|bytes| bytes / 3 >= self.bytes());
        let read = |path| io::copy(&mut File::open(path)?, &mut io::sink());
        has_room && self.0.iter().all(|(path, _)| read(path).is_ok())
    }

    /// Bytes per second of reading the largest of them around the page cache, from its start on, several reads in flight;
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
