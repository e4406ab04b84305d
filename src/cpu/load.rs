//! Reads the weights of a model into one piece of host memory.

use std::mem;
use std::ops::Range;
use std::sync::Arc;

use memmap2::{Advice, MmapMut};

use super::weight::{Matrix, Weight};
use crate::executor::{FillError, PIECE_BYTES, WeightSource, in_flight, pieces_at_once};
use crate::tape::WeightInfo;

/// Matrices begin at multiples of a cache line.
const ALIGNMENT: usize = 64;

/// Rows of a weight, and their destination.
struct Piece<'m> {
    weight: usize,
    rows: Range<usize>,
    to: To<'m>,
}

enum To<'m> {
    Matrix(&'m mut [u8]),
    Vector(&'m mut [f32]),
}

/// Allocates and reads all weights. `read` is called with the bytes of each piece.
pub fn load<S: WeightSource>(
    infos: &[WeightInfo],
    source: &S,
    read: &mut dyn FnMut(usize),
) -> Result<Vec<Weight>, S::Error> {
    let bytes = infos.iter().map(matrix_bytes).map(aligned).sum();
    let mut map = memory(bytes)?;
    let mut vectors: Vec<Vec<f32>> = infos.iter().map(vector).collect();
    let mut pieces = Vec::new();
    let mut rest = &mut map[..];
    for (weight, (info, vector)) in infos.iter().zip(&mut vectors).enumerate() {
        if info.rows == 1 {
            let to = To::Vector(vector);
            let rows = 0..1;
            pieces.push(Piece { weight, rows, to });
            continue;
        }
        let row_bytes = info.format.row_bytes(info.columns);
        let (matrix, after) = mem::take(&mut rest).split_at_mut(aligned(matrix_bytes(info)));
        rest = after;
        let matrix = &mut matrix[..info.rows * row_bytes];
        let rows_each = (PIECE_BYTES / row_bytes).max(1);
        let firsts = (0..info.rows).step_by(rows_each);
        for (first, to) in firsts.zip(matrix.chunks_mut(rows_each * row_bytes)) {
            pieces.push(Piece {
                weight,
                rows: first..first + to.len() / row_bytes,
                to: To::Matrix(to),
            });
        }
    }
    pieces.sort_by_key(|piece| source.place(piece.weight, piece.rows.start));
    let threads = pieces_at_once(PIECE_BYTES);
    in_flight(
        threads,
        pieces,
        vec![(); 4 * threads],
        |Piece { weight, rows, to }, ()| {
            source.read(*weight, rows.clone(), &mut |stored| match to {
                To::Matrix(to) => to.copy_from_slice(stored),
                To::Vector(to) => {
                    for (value, bytes) in to.iter_mut().zip(stored.as_chunks().0) {
                        *value = f32::from_le_bytes(*bytes);
                    }
                }
            })
        },
        |Piece { weight, rows, .. }, ()| {
            let info = &infos[weight];
            read(rows.len() * info.format.row_bytes(info.columns));
            Ok::<_, S::Error>(())
        },
    )?;
    let map = map.make_read_only();
    let map = Arc::new(map.map_err(|error| FillError::Memory { bytes, error })?);
    let mut start = 0;
    let weights = infos.iter().zip(vectors).map(|(info, vector)| {
        if info.rows == 1 {
            return Weight::Vector(vector);
        }
        let bytes = start..start + matrix_bytes(info);
        start += aligned(bytes.len());
        Weight::Matrix(Matrix::new(info.format, info.columns, &map, bytes))
    });
    Ok(weights.collect())
}

/// Allocates memory in large pages if the system has them: allocating small pages takes longer than reading the
/// weights.
fn memory(bytes: usize) -> Result<MmapMut, FillError> {
    let map = MmapMut::map_anon(bytes.max(1));
    let map = map.map_err(|error| FillError::Memory { bytes, error })?;
    // This is advice only.
    let _ = map.advise(Advice::HugePage);
    Ok(map)
}

fn matrix_bytes(info: &WeightInfo) -> usize {
    if info.rows == 1 {
        0
    } else {
        info.rows * info.format.row_bytes(info.columns)
    }
}

fn vector(info: &WeightInfo) -> Vec<f32> {
    let values = if info.rows == 1 { info.columns } else { 0 };
    vec![0.0; values]
}

const fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT)
}
