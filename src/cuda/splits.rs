//! Into how many parts a step's attention is split, and what these leave for their merge.

use crate::device::STEP_ROWS;
use crate::tape::KvInfo;

/// `step/splits.cuh`
const MOST_SPLITS: usize = 64;
/// Blocks that a row's attention is split into, where it is long: enough to keep any device busy, and the same on all.
const SPLIT_BLOCKS: usize = 256;

/// Into how many parts a row of so many groups of heads may be split.
pub(super) fn splits(groups: usize) -> usize {
    (SPLIT_BLOCKS / groups).clamp(16, MOST_SPLITS)
}

/// Bytes of the parts that a step's attention of `columns` of q leaves for its merge: of each head and split
/// a maximum, a sum and an output. Heads are taken up to 4 or up to 8 at a time.
pub(super) fn partial_bytes(kv: KvInfo, rows: usize, columns: usize) -> usize {
    let group = columns / kv.head_dim / kv.heads;
    let taken = group.next_multiple_of(if group > 8 { 8 } else { 4 });
    4 * rows * kv.heads * taken * MOST_SPLITS * (kv.head_dim + 4)
}

/// Counters at which blocks of a step leave their arrival: a row's attention has one for each group of heads, and a
/// head of the cache has no more of those than `MOST_GROUPS`.
pub(super) const fn most_arrivals(kv: KvInfo) -> usize {
    const MOST_GROUPS: usize = 64;
    STEP_ROWS * kv.heads * MOST_GROUPS
}
