//! The files of a checkpoint, and reads of their weights.
//!
//! Weights are read around the page cache where the file system allows it, which is faster and evicts no other pages.
//! Data that is already in the page cache is taken from there and evicted, so no weight is in memory twice. Where there is
//! plenty of memory, `stay_cached` leaves the file in the page cache instead, so that the next load is faster.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, IoSliceMut, Read};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::fcntl::{OFlag, PosixFadviseAdvice, posix_fadvise};
use parking_lot::{Mutex, MutexGuard};
use rustix::io::{ReadWriteFlags, preadv2};

use super::read_buffer::{BLOCK, ReadBuffer};
use super::{foreign, parts};
use crate::model::error::Defect;
use crate::model::weights::{RowOrder, Tensor};

/// Bytes between two requests to evict read pages. A request after every read would also evict read-ahead pages, which
/// triples the time.
const REMEMBERED: u64 = 32 << 20;

/// The number of places of a file that are looked up in the page cache.
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

/// A regular file that weights are read from. Several threads may read at once.
#[derive(Debug)]
pub(super) struct ModelFile {
    pub(super) path: PathBuf,
    pub(super) file: File,
    /// The length when it was opened.
    pub(super) length: u64,
    /// The same file opened around the page cache, at the first read; `None` if that is impossible or slower.
    around: OnceLock<Option<File>>,
    /// Whether the file stays in the page cache.
    stays: AtomicBool,
    passing: Mutex<Passing>,
}

/// The progress of evicting read pages.
#[derive(Debug, Default)]
struct Passing {
    /// The offsets of reads that have not finished.
    reads: Vec<u64>,
    /// Bytes read since the last request to evict.
    remembered: u64,
}

impl ModelFile {
    pub(super) fn open(path: &Path) -> Result<Self, Defect> {
        // Checked before the file is opened, because opening a FIFO would wait for its writer.
        if !std::fs::metadata(path)?.is_file() {
            return Err(Defect::NotAModel);
        }
        let file = File::open(path)?;
        Ok(Self {
            path: path.to_owned(),
            length: file.metadata()?.len(),
            file,
            around: OnceLock::new(),
            stays: AtomicBool::new(false),
            passing: Mutex::default(),
        })
    }

    /// Leaves what is read in the page cache. Call it before the first read.
    pub(super) fn stay_cached(&self) {
        self.stays.store(true, Ordering::Relaxed);
    }

    /// Reads rows in the model's order.
    pub(super) fn rows<'l>(
        &self,
        tensor: &Tensor,
        rows: Range<usize>,
        buffer: &'l mut ReadBuffer,
    ) -> Result<&'l [u8], Defect> {
        if tensor.rows == 1 && tensor.row_order != RowOrder::Plain {
            let column = tensor.as_column();
            let elements = rows.start * column.rows..rows.end * column.rows;
            return self.rows(&column, elements, buffer);
        }
        let stored = match tensor.row_order {
            RowOrder::Plain => rows.clone(),
            // The rows of a head are permuted among themselves, so each requested head is read as a whole.
            RowOrder::Interleaved { heads } => {
                let head_dim = tensor.rows / heads;
                rows.start / head_dim * head_dim..rows.end.next_multiple_of(head_dim)
            }
            RowOrder::Blocks { .. } if rows.is_empty() => 0..0,
            RowOrder::Blocks { .. } => {
                tensor.file_row(rows.start)..tensor.file_row(rows.end - 1) + 1
            }
        };
        let row_bytes = tensor.row_bytes();
        let offset = tensor.offset + (stored.start * row_bytes) as u64;
        let landed = self.read(offset, stored.len() * row_bytes, buffer)?;
        Ok(buffer.ordered(tensor, (rows, stored.start), landed))
    }

    /// Reads a vector as f32, in the model's order.
    pub(super) fn vector(
        &self,
        tensor: &Tensor,
        buffer: &mut ReadBuffer,
    ) -> Result<Vec<f32>, Defect> {
        let bytes = self.rows(tensor, 0..tensor.rows, buffer)?;
        let mut values = vec![0.0; tensor.rows * tensor.columns];
        tensor.format.dequantize(bytes, &mut values);
        tensor.values.compute(&mut values);
        Ok(values)
    }

    /// Reads a range of the file; returns its place in the buffer's blocks.
    fn read(
        &self,
        offset: u64,
        length: usize,
        buffer: &mut ReadBuffer,
    ) -> Result<Range<usize>, Defect> {
        self.passing().reads.push(offset);
        let landed = self.read_blocks(offset, length, buffer);
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
        buffer: &mut ReadBuffer,
    ) -> io::Result<Range<usize>> {
        // Less than a block.
        #[allow(clippy::cast_possible_truncation)]
        let before = (offset % BLOCK as u64) as usize;
        let landed = before..before + length;
        let blocks = buffer.blocks(landed.end.next_multiple_of(BLOCK));
        if let Some(file) = self.around() {
            match read_whole(file, offset - before as u64, blocks, landed.end) {
                // Some file systems refuse only at the read.
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

    /// Opens the file around the page cache. A cached file would only be read from the disk again.
    fn around(&self) -> Option<&File> {
        let open = || {
            if self.stays.load(Ordering::Relaxed) || self.is_cached() {
                return None;
            }
            let mut options = OpenOptions::new();
            options.read(true).custom_flags(OFlag::O_DIRECT.bits());
            let file = options.open(&self.path).ok()?;
            // Another file may have the name by then.
            let identity = |file: &File| {
                let metadata = file.metadata().ok()?;
                Some((metadata.dev(), metadata.ino()))
            };
            (identity(&file)? == identity(&self.file)?).then_some(file)
        };
        self.around.get_or_init(open).as_ref()
    }

    /// Whether the file is in the page cache, judged by some places of it, without reading missing ones.
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
        // The end first: the beginning is cached because its head was read. A miss may start a read.
        (0..PROBES).rev().all(there)
    }

    /// Asks the kernel to evict all pages before a byte, beginning with the file's start. For a smaller range, the
    /// kernel keeps up to 2 MiB at each end.
    fn forget(&self, end: u64) {
        if self.stays.load(Ordering::Relaxed) {
            return;
        }
        let end = i64::try_from(end).unwrap_or(i64::MAX);
        // This is only advice: a file system that ignores it costs memory, not correctness.
        let _ = posix_fadvise(&self.file, 0, end, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
    }

    fn passing(&self) -> MutexGuard<'_, Passing> {
        self.passing.lock()
    }
}

impl Drop for ModelFile {
    fn drop(&mut self) {
        // Some file systems cache reads in spite of the request.
        if self.around.get().is_some() {
            // Without an end, the range is the whole file.
            self.forget(0);
        }
    }
}

/// Reads blocks until `needed` bytes are there.
fn read_whole(file: &File, offset: u64, blocks: &mut [u8], needed: usize) -> io::Result<()> {
    let mut read = 0;
    while read < needed {
        match file.read_at(&mut blocks[read..], offset + read as u64) {
            Ok(bytes) => {
                read += bytes;
                // Only the last block of a file may be incomplete.
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

/// Reads a text file of at most `longest` bytes.
pub(in crate::model) fn read_text(path: &Path, longest: u64) -> Result<String, Defect> {
    let ModelFile { length, file, .. } = &ModelFile::open(path)?;
    if *length > longest {
        let problem =
            format!("{length} bytes are more than the {longest} that such a file may have");
        return Err(Defect::Malformed(problem));
    }
    let mut text = String::new();
    file.take(longest).read_to_string(&mut text)?;
    foreign::placeholder(&text).map_or(Ok(text), Err)
}

/// Returns a file's name without its extension.
pub(super) fn stem(path: &Path) -> String {
    path.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
