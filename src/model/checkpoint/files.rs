//! The files of a checkpoint, and reading weights from them.
//!
//! Weights are read around the page cache where the file system allows it: that costs less, and takes nobody else's
//! pages. What lies in the page cache already is taken from there and leaves it, so that no weight is in memory twice.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, IoSliceMut, Read};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use nix::errno::Errno;
use nix::fcntl::{OFlag, PosixFadviseAdvice, posix_fadvise};
use rustix::io::{ReadWriteFlags, preadv2};

use super::landing::{BLOCK, Landing};
use super::{foreign, parts};
use crate::model::weights::RowOrder;
use crate::model::{Defect, Tensor};

/// Bytes that may be read before the page cache is asked to forget them: asked after every read, it
/// would also forget what it has read ahead, at a third of the disk's speed.
const REMEMBERED: u64 = 32 << 20;

/// Places of a file that are looked for in the page cache.
const PROBES: u64 = 16;

/// Lists the files that hold a model: itself with its other parts, or the files in its folder.
#[must_use]
pub fn files_of(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else {
        return parts::all_parts(path);
    };
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| {
        let extension = file.extension().and_then(OsStr::to_str);
        matches!(extension, Some("safetensors" | "json" | "gguf" | "jinja"))
    });
    files.sort();
    files
}

/// A regular file that weights are read from. Threads may read at once.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) file: File,
    /// When it was opened.
    pub(super) length: u64,
    /// The same file around the page cache, once weights are read; `None` where that cannot be, or is no gain.
    around: OnceLock<Option<File>>,
    passing: Mutex<Passing>,
}

/// What the page cache need not keep.
#[derive(Debug, Default)]
struct Passing {
    /// Where reads begin that have not ended.
    reads: Vec<u64>,
    /// Bytes read since the page cache was last asked to forget.
    remembered: u64,
}

impl Source {
    pub(super) fn open(path: &Path) -> Result<Self, Defect> {
        // Asked before opening: to open a FIFO would wait for its writer.
        if !std::fs::metadata(path)?.is_file() {
            return Err(Defect::NotAModel);
        }
        let file = File::open(path)?;
        Ok(Self {
            path: path.to_owned(),
            length: file.metadata()?.len(),
            file,
            around: OnceLock::new(),
            passing: Mutex::default(),
        })
    }

    /// Reads rows in the model's order.
    pub(super) fn rows<'l>(
        &self,
        tensor: &Tensor,
        rows: Range<usize>,
        landing: &'l mut Landing,
    ) -> Result<&'l [u8], Defect> {
        if tensor.rows == 1 && tensor.row_order != RowOrder::Plain {
            let column = tensor.as_column();
            let elements = rows.start * column.rows..rows.end * column.rows;
            return self.rows(&column, elements, landing);
        }
        let stored = match tensor.row_order {
            RowOrder::Plain => rows.clone(),
            // The rows of a head are shuffled among themselves: each that is asked for is read whole.
            RowOrder::Interleaved { heads } => {
                let head_dim = tensor.rows / heads;
                rows.start / head_dim * head_dim..rows.end.next_multiple_of(head_dim)
            }
        };
        let row_bytes = tensor.row_bytes();
        let offset = tensor.offset + (stored.start * row_bytes) as u64;
        let landed = self.read(offset, stored.len() * row_bytes, landing)?;
        Ok(landing.ordered(tensor, (rows, stored.start), landed))
    }

    /// Reads a vector as f32, in the model's order.
    pub(super) fn vector(
        &self,
        tensor: &Tensor,
        landing: &mut Landing,
    ) -> Result<Vec<f32>, Defect> {
        let bytes = self.rows(tensor, 0..tensor.rows, landing)?;
        let mut values = vec![0.0; tensor.rows * tensor.columns];
        tensor.format.dequantize(bytes, &mut values);
        Ok(values)
    }

    /// Reads a range of the file; where it lies in the landing's blocks.
    fn read(
        &self,
        offset: u64,
        length: usize,
        landing: &mut Landing,
    ) -> Result<Range<usize>, Defect> {
        self.passing().reads.push(offset);
        let landed = self.read_blocks(offset, length, landing);
        let mut passing = self.passing();
        if let Some(at) = passing.reads.iter().position(|read| *read == offset) {
            passing.reads.swap_remove(at);
        }
        passing.remembered += length as u64;
        if passing.remembered >= REMEMBERED {
            passing.remembered = 0;
            let end = offset + length as u64;
            let behind = passing.reads.iter().copied().fold(end, u64::min);
            drop(passing);
            self.forget(behind);
        }
        landed.map_err(|error| self.defect(error, offset + length as u64))
    }

    fn read_blocks(
        &self,
        offset: u64,
        length: usize,
        landing: &mut Landing,
    ) -> io::Result<Range<usize>> {
        // Less than a block.
        #[allow(clippy::cast_possible_truncation)]
        let before = (offset % BLOCK as u64) as usize;
        let landed = before..before + length;
        let blocks = landing.blocks(landed.end.next_multiple_of(BLOCK));
        if let Some(file) = self.around() {
            match read_whole(file, offset - before as u64, blocks, landed.end) {
                // Some file systems refuse only now.
                Err(error) if error.raw_os_error() == Some(Errno::EINVAL as i32) => (),
                result => return result.map(|()| landed),
            }
        }
        self.file
            .read_exact_at(&mut blocks[landed.clone()], offset)?;
        Ok(landed)
    }

    fn defect(&self, error: io::Error, end: u64) -> Defect {
        if error.kind() != ErrorKind::UnexpectedEof {
            return error.into();
        }
        let length = self.length;
        Defect::Malformed(format!(
            "it had {length} bytes when it was opened, and ends before byte {end} now"
        ))
    }

    /// The file as it is read around the page cache. One that lies there would only be read again.
    fn around(&self) -> Option<&File> {
        let open = || {
            if self.is_cached() {
                return None;
            }
            let mut options = OpenOptions::new();
            options.read(true).custom_flags(OFlag::O_DIRECT.bits());
            let file = options.open(&self.path).ok()?;
            // Another may have taken its place since.
            let identity = |file: &File| {
                let metadata = file.metadata().ok()?;
                Some((metadata.dev(), metadata.ino()))
            };
            (identity(&file)? == identity(&self.file)?).then_some(file)
        };
        self.around.get_or_init(open).as_ref()
    }

    /// Whether it lies in the page cache, as far as some places all over it tell. What is not there is not waited for.
    fn is_cached(&self) -> bool {
        let there = |probe| {
            let at = self.length / PROBES * probe + self.length / PROBES / 2;
            let mut byte = [0];
            let buffers = &mut [IoSliceMut::new(&mut byte)];
            matches!(
                preadv2(&self.file, buffers, at, ReadWriteFlags::NOWAIT),
                Ok(1)
            )
        };
        // The last first: what was read of the beginning, its head, says nothing. A miss may begin to read.
        (0..PROBES).rev().all(there)
    }

    /// Has the page cache forget what lies before a byte. From the start of the file: of a range, the kernel keeps what
    /// lies in it only in part, which is up to 2 MiB at each end.
    fn forget(&self, end: u64) {
        let end = i64::try_from(end).unwrap_or(i64::MAX);
        // Only advice: a file system that ignores it costs memory, not correctness.
        let _ = posix_fadvise(&self.file, 0, end, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
    }

    fn passing(&self) -> MutexGuard<'_, Passing> {
        self.passing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // Weights have been read, and perhaps into the page cache: some file systems do so whatever they are asked.
        if self.around.get().is_some() {
            // No end is all of it.
            self.forget(0);
        }
    }
}

/// Reads blocks until so many bytes have come.
fn read_whole(file: &File, offset: u64, blocks: &mut [u8], needed: usize) -> io::Result<()> {
    let mut read = 0;
    while read < needed {
        match file.read_at(&mut blocks[read..], offset + read as u64) {
            Ok(bytes) => {
                read += bytes;
                // Only the last block of a file may come in part.
                if read < needed && (bytes == 0 || !bytes.is_multiple_of(BLOCK)) {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => (),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The whole of a text file of at most `longest` bytes.
pub(in crate::model) fn read_text(path: &Path, longest: u64) -> Result<String, Defect> {
    let Source { length, file, .. } = &Source::open(path)?;
    if *length > longest {
        let problem =
            format!("{length} bytes are more than the {longest} that such a file may have");
        return Err(Defect::Malformed(problem));
    }
    let mut text = String::new();
    file.take(longest).read_to_string(&mut text)?;
    foreign::placeholder(&text).map_or(Ok(text), Err)
}

/// A file's name without its extension.
pub(super) fn stem(path: &Path) -> String {
    path.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
