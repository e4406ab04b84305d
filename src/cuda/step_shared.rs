//! Shared memory of a step's product, and how many of its blocks that leaves room for.

use crate::device::STEP_ROWS;
use crate::quant::{Format, Storage};

/// Shared memory of a multiprocessor that blocks may share: an Orin's, and that of larger ones beside their first cache.
const MULTIPROCESSOR_SHARED: usize = 163 << 10;

/// Blocks on a multiprocessor, at most.
const BLOCKS: usize = 2;

/// Bytes of shared memory: the rows, what goes off the sums of each block of theirs, what eight warps have summed, twice,
/// and the warps' rings. `Rows` and `Ring` of `kernels/step/product.cuh`.
pub(super) fn bytes(of: Storage, rows: usize, columns: usize) -> usize {
    let (apart, places, fours) = if rows == 1 {
        (0, 1, 1)
    } else {
        (32, STEP_ROWS, STEP_ROWS / 2)
    };
    let layout = of.layout();
    let excess = layout
        .block_columns
        .map_or(0, |block| columns / block * 16 * fours);
    let unit = layout.unit() + layout.head;
    let together = if unit < 2048 { 2 * unit } else { unit };
    let depth = match (rows, of.format()) {
        (_, Format::F32) => 4,
        (1, _) if unit >= 2048 => 6,
        (1, _) => (4608 / together).clamp(2, 4),
        _ => (6528 / together).clamp(2, 4),
    };
    2 * (columns + apart) * rows + excess + 2 * 8 * 16 * 4 * places + 8 * depth * together
}

/// How many blocks of so many bytes a multiprocessor has room for; at least one.
pub(super) fn blocks(bytes: usize) -> usize {
    (MULTIPROCESSOR_SHARED / bytes).clamp(1, BLOCKS)
}
