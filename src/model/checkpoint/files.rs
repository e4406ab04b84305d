//! Reading weights from files that no other program should notice: what has been read leaves the page
//! cache again, so that no weight is in memory twice.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

use crate::model::weights::RowOrder;
use crate::model::{Defect, Tensor};

/// The largest page of any Linux that this runs on.
const LARGEST_PAGE: u64 = 64 << 10;

/// Opens a regular file, and tells its length.
pub(super) fn open(path: &Path) -> Result<(File, u64), Defect> {
    // Asked before opening: to open a FIFO would wait for its writer.
    if !std::fs::metadata(path)?.is_file() {
        return Err(Defect::NotAModel);
    }
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    Ok((file, length))
}

/// The whole of a text file of at most `longest` bytes.
pub(super) fn read_text(path: &Path, longest: u64) -> Result<String, Defect> {
    let (file, length) = open(path)?;
    if length > longest {
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

/// Fills `out` from `offset`, and lets the page cache forget those bytes.
pub(super) fn read(file: &File, offset: u64, out: &mut [u8]) -> Result<(), Defect> {
    file.read_exact_at(out, offset)?;
    // A page that two reads share stays after the first: the second one's start drops it.
    let start = offset / LARGEST_PAGE * LARGEST_PAGE;
    let length = offset - start + out.len() as u64;
    if let (Ok(start), Ok(length)) = (start.try_into(), length.try_into()) {
        // Only advice: a file system that ignores it costs memory, not correctness.
        let _ = posix_fadvise(file, start, length, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
    }
    Ok(())
}

/// Reads rows in the model's order.
pub(super) fn read_rows(
    file: &File,
    tensor: &Tensor,
    rows: Range<usize>,
    out: &mut [u8],
) -> Result<(), Defect> {
    if tensor.rows == 1 && tensor.row_order != RowOrder::Plain {
        let column = tensor.as_column();
        let elements = rows.start * column.rows..rows.end * column.rows;
        return read_rows(file, &column, elements, out);
    }
    let row_bytes = tensor.row_bytes();
    let at = |row: usize| tensor.offset + (row * row_bytes) as u64;
    let RowOrder::Interleaved { heads } = tensor.row_order else {
        return read(file, at(rows.start), out);
    };
    // The rows of a head are shuffled among themselves: read each head that is asked for whole.
    let head_dim = tensor.rows / heads;
    let mut head = vec![0; head_dim * row_bytes];
    let mut in_memory = None;
    for (row, out) in rows.zip(out.chunks_exact_mut(row_bytes)) {
        let first = row / head_dim * head_dim;
        if in_memory != Some(first) {
            read(file, at(first), &mut head)?;
            in_memory = Some(first);
        }
        let within = (tensor.file_row(row) - first) * row_bytes;
        out.copy_from_slice(&head[within..within + row_bytes]);
    }
    Ok(())
}

/// Reads a vector as f32, in the model's order.
pub(super) fn read_vector(file: &File, tensor: &Tensor) -> Result<Vec<f32>, Defect> {
    let mut bytes = vec![0; tensor.bytes()];
    read_rows(file, tensor, 0..tensor.rows, &mut bytes)?;
    let mut values = vec![0.0; tensor.rows * tensor.columns];
    tensor.format.dequantize(&bytes, &mut values);
    Ok(values)
}
