//! Selects the kernel of `kernels/prompt/attend.cuh` for a prompt's rows, and the memory for its splits. `attend`
//! launches it.

use crate::device::{AttendArgs, Error, Kernel, LaunchOrder, Modules};
use crate::kv::KvType;
use crate::tape::KvHeads;

pub(super) const THREADS: u32 = 128;
/// Columns of a head that the kernels know.
const HEAD_DIMS: [usize; 6] = [64, 80, 96, 128, 256, 512];
/// Columns of the outputs of a block. Blocks share wider heads.
const OUTPUTS: usize = 256;
/// Positions in a split, before `LONG_SPLIT` and after it.
const SHORT_SPLIT: usize = 512;
const LONG_SPLIT: usize = 4096;
/// The most blocks of a launch in which a split has its own block. More blocks keep a device busy without that, and would
/// need more memory.
const APART: usize = 512;

/// A kernel, the query rows of its blocks, and its shared memory in bytes.
#[derive(Debug)]
pub(super) struct Tiles {
    pub(super) kernel: Kernel<AttendArgs>,
    pub(super) rows: usize,
    pub(super) shared: usize,
}

/// The attention kernels of prompts, which compute the same bits.
#[derive(Debug)]
pub(super) struct PromptAttend {
    many: Tiles,
    /// Smaller tiles with prefetched keys and values, for few rows that would leave most of a device idle. `None` for
    /// wide heads.
    few: Option<Tiles>,
}

impl PromptAttend {
    /// `types` is the part of kernel names for the types of activations and cache.
    pub(super) fn load(modules: &Modules, kv: KvHeads, types: &str) -> Result<Option<Self>, Error> {
        let head_dim = kv.head_dim;
        if !HEAD_DIMS.contains(&head_dim) {
            return Ok(None);
        }
        let tiles = |prefix: &str, rows: usize, shared: usize| {
            let name = format!("prompt_attend_{prefix}{types}_{head_dim}");
            Ok::<_, Error>(Tiles {
                kernel: modules.kernel(&name, shared, LaunchOrder::Between)?,
                rows,
                shared,
            })
        };
        let few = (head_dim <= 128).then(|| tiles("few_", FEW_ROWS, shared(kv, FEW_ROWS, true)));
        let rows = most_rows(head_dim);
        Ok(Some(Self {
            many: tiles("", rows, shared(kv, rows, false))?,
            few: few.transpose()?,
        }))
    }

    /// Selects tiles for a number of query rows of a KV head, counted over tokens and the heads that share it.
    pub(super) fn select(&self, kv: KvHeads, rows: usize, multiprocessors: u32) -> &Tiles {
        let blocks = rows.div_ceil(FEW_ROWS) * kv.heads;
        let few = self.few.as_ref();
        // On an H100 all blocks are resident at the same time. An Orin has room for one block of f16 and 128 columns on
        // a multiprocessor, and takes two turns.
        few.filter(|_| blocks <= 2 * multiprocessors as usize)
            .unwrap_or(&self.many)
    }

    /// The number of blocks that share some rows of a head: one for each part of its columns, or for each split if a device
    /// can have more blocks.
    pub(super) fn sharing(&self, kv: KvHeads, rows: usize, multiprocessors: u32) -> usize {
        if kv.head_dim > OUTPUTS {
            return kv.head_dim / OUTPUTS;
        }
        let blocks = rows.div_ceil(self.many.rows) * kv.heads;
        if blocks < multiprocessors as usize {
            apart(kv, rows)
        } else {
            1
        }
    }
}

/// Query rows of a block, if there are few rows.
const FEW_ROWS: usize = 64;

/// Query rows of a block, if there are many rows.
const fn most_rows(head_dim: usize) -> usize {
    if head_dim > 128 { 64 } else { 128 }
}

/// Bytes of shared memory: queries, keys and values, with rows shifted by a bank, and quants as they arrive. Prefetched
/// data needs its own memory.
fn shared(kv: KvHeads, rows: usize, ahead: bool) -> usize {
    let KvHeads {
        head_dim, types, ..
    } = kv;
    let keys = match head_dim {
        ..=128 => 64,
        129..=256 => 32,
        _ => 16,
    };
    let row = |columns: usize| 2 * columns + 16;
    let (mut values, mut arriving) = (0, 0);
    for (element, columns) in types
        .sides()
        .into_iter()
        .zip([head_dim, head_dim.min(OUTPUTS)])
    {
        if element == KvType::Q8_0 {
            let quants = keys * element.bytes(columns);
            values += keys * row(columns);
            // Without prefetching, values arrive in the memory of the keys.
            arriving = if ahead {
                arriving + quants
            } else {
                arriving.max(quants)
            };
        } else {
            values += if ahead { 2 } else { 1 } * keys * row(columns);
        }
    }
    rows * row(head_dim) + values + arriving
}

/// The splits of the longest conversation.
fn splits(kv: KvHeads) -> usize {
    if kv.head_dim > OUTPUTS {
        1
    } else {
        let later = kv.context.saturating_sub(LONG_SPLIT);
        kv.context.min(LONG_SPLIT).div_ceil(SHORT_SPLIT) + later.div_ceil(LONG_SPLIT)
    }
}

/// The number of blocks for the splits of a row. Rows with more splits are computed by one block.
fn apart(kv: KvHeads, rows: usize) -> usize {
    let blocks = rows.div_ceil(most_rows(kv.head_dim)) * kv.heads;
    splits(kv).min(APART / blocks.max(1)).max(1)
}

/// Bytes of the splits' results before they are merged, for at most this many query rows of a KV head: a maximum, a sum
/// and an output each.
///
/// Only few rows have splits of their own, so fewer rows may need more memory than many. No prompt may need more than
/// was allocated, because moving a buffer would invalidate all recordings.
pub(super) fn partial_bytes(kv: KvHeads, rows: usize) -> usize {
    if splits(kv) == 1 {
        return 0;
    }
    let of_block = most_rows(kv.head_dim);
    let left = |blocks: usize| blocks * kv.heads * apart(kv, blocks * of_block);
    let most = (1..=rows.div_ceil(of_block)).map(left).max();
    most.unwrap_or(0) * of_block * (kv.head_dim + 8) * 4
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The memory allocated for the most rows is enough for any number.
    #[test]
    fn fewer_rows_never_need_more_partials() {
        for (heads, head_dim, context, element) in [
            (8, 128, 21_000, KvType::F16),
            (8, 128, 2048, KvType::Q8_0),
            (2, 128, 131_072, KvType::F16),
            (1, 128, 600, KvType::BF16),
            (4, 256, 21_000, KvType::F16),
        ] {
            let kv = KvHeads {
                heads,
                head_dim,
                context,
                types: element.into(),
            };
            let of_block = most_rows(kv.head_dim);
            let each = |rows: usize| {
                let blocks = rows.div_ceil(of_block) * kv.heads * apart(kv, rows);
                blocks * of_block * (kv.head_dim + 8) * 4
            };
            let all = partial_bytes(kv, 2048);
            assert!((1..=2048).all(|rows| each(rows) <= partial_bytes(kv, rows)));
            assert!(
                (1..=2048).all(|rows| partial_bytes(kv, rows) <= all),
                "{kv:?}"
            );
            assert!((1..=2048).any(|rows| each(rows) == all), "{kv:?}");
        }
    }
}
