//! The number of parts of a step's attention, and the memory for their results.

use crate::device::STEP_ROWS;
use crate::tape::{KvHeads, KvInfo};

/// `step/splits.cuh`
const MOST_SPLITS: usize = 64;
/// The number of blocks that a long row is split into: enough for any device, and equal on all of them.
const SPLIT_BLOCKS: usize = 256;

/// The number of parts of a row with `groups` of heads.
pub(super) fn splits(groups: usize) -> usize {
    (SPLIT_BLOCKS / groups).clamp(16, MOST_SPLITS)
}

/// Bytes of the parts' results before they are merged: a maximum, a sum and an output for each head and part. A block
/// has up to 4 or up to 8 heads.
pub(super) fn partial_bytes(kv: KvHeads, rows: usize, columns: usize) -> usize {
    let group = columns / kv.head_dim / kv.heads;
    let taken = group.next_multiple_of(if group > 8 { 8 } else { 4 });
    4 * rows * kv.heads * taken * MOST_SPLITS * (kv.head_dim + 4)
}

/// The number of counters for finished blocks of a step: one for each group of heads of a row. A KV head has at most
/// `MOST_GROUPS` groups.
pub(super) fn most_arrivals(kv: KvInfo) -> usize {
    const MOST_GROUPS: usize = 64;
    let heads = kv.used_kinds().map(|kind| kind.heads).max();
    STEP_ROWS * heads.unwrap_or(0) * MOST_GROUPS
}
