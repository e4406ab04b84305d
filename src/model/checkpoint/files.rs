//! The files of a checkpoint, and reading weights from them.
//!
//! What has been read leaves the page cache again, so that no weight is in memory twice.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

use crate::model::weights::RowOrder;
use crate::model::{Defect, Tensor};

/// Bytes that may be read before the page cache is asked to forget them: asked after every read, it
/// would also forget what it has read ahead, at a third of the disk's speed.
const REMEMBERED: u64 = 32 << 20;

/// A regular file that weights are read from. Threads may read at once.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) file: File,
    /// When it was opened.
    pub(super) length: u64,
    /// Bytes read since the page cache was last asked to forget.
    remembered: AtomicU64,
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
            remembered: AtomicU64::new(0),
        })
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Defect> {
        self.file.read_exact_at(out, offset)?;
        let bytes = out.len() as u64;
        if self.remembered.fetch_add(bytes, Ordering::Relaxed) + bytes >= REMEMBERED {
            self.forget();
        }
        Ok(())
    }

    /// Asks for the whole file: of a range, the kernel keeps what lies in it only in part, which is up
    /// to 2 MiB at each end.
    fn forget(&self) {
        self.remembered.store(0, Ordering::Relaxed);
        // Only advice: a file system that ignores it costs memory, not correctness.
        let _ = posix_fadvise(&self.file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
    }

    /// Reads rows in the model's order.
    pub(super) fn read_rows(
        &self,
        tensor: &Tensor,
        rows: Range<usize>,
        out: &mut [u8],
    ) -> Result<(), Defect> {
        if tensor.rows == 1 && tensor.row_order != RowOrder::Plain {
            let column = tensor.as_column();
            let elements = rows.start * column.rows..rows.end * column.rows;
            return self.read_rows(&column, elements, out);
        }
        let row_bytes = tensor.row_bytes();
        let at = |row: usize| tensor.offset + (row * row_bytes) as u64;
        let RowOrder::Interleaved { heads } = tensor.row_order else {
            return self.read(at(rows.start), out);
        };
        // The rows of a head are shuffled among themselves: read each head that is asked for whole.
        let head_dim = tensor.rows / heads;
        let mut head = vec![0; head_dim * row_bytes];
        let mut in_memory = None;
        for (row, out) in rows.zip(out.chunks_exact_mut(row_bytes)) {
            let first = row / head_dim * head_dim;
            if in_memory != Some(first) {
                self.read(at(first), &mut head)?;
                in_memory = Some(first);
            }
            let within = (tensor.file_row(row) - first) * row_bytes;
            out.copy_from_slice(&head[within..within + row_bytes]);
        }
        Ok(())
    }

    /// Reads a vector as f32, in the model's order.
    pub(super) fn read_vector(&self, tensor: &Tensor) -> Result<Vec<f32>, Defect> {
        let mut bytes = vec![0; tensor.bytes()];
        self.read_rows(tensor, 0..tensor.rows, &mut bytes)?;
        let mut values = vec![0.0; tensor.rows * tensor.columns];
        tensor.format.dequantize(&bytes, &mut values);
        Ok(values)
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if self.remembered.load(Ordering::Relaxed) > 0 {
            self.forget();
        }
    }
}

/// The whole of a text file of at most `longest` bytes.
pub(super) fn read_text(path: &Path, longest: u64) -> Result<String, Defect> {
    let Source { length, file, .. } = &Source::open(path)?;
    if *length > longest {
        let problem =
            format!("{length} bytes are more than the {longest} that such a file may have");
        return Err(Defect::Malformed(problem));
    }
    let mut text = String::new();
    file.take(longest).read_to_string(&mut text)?;
    Ok(text)
}

/// A file's name without its extension.
pub(super) fn stem(path: &Path) -> String {
    path.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
