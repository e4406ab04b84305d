//! Which kernel of `kernels/prompt/attend.cuh` attends for a prompt's rows, and what it leaves of splits. What it launches with is for
//! `attend`.

use super::step_attend::HEAD_DIMS;
use crate::device::{AttendArgs, Error, Family, Kernel, Modules};
use crate::tape::{KvInfo, KvType};

pub(super) const THREADS: u32 = 128;
/// Positions that are summed by themselves, before `LONG_SPLIT` and from there on.
const SHORT_SPLIT: usize = 512;
const LONG_SPLIT: usize = 4096;
/// Blocks that may have a split each. More keep a device busy without that, and take more memory.
const APART: usize = 512;

/// A kernel, how many query rows a block of it takes, and its shared memory in bytes.
#[derive(Debug)]
pub(super) struct Tiles {
    pub(super) kernel: Kernel<AttendArgs>,
    pub(super) rows: usize,
    pub(super) shared: usize,
}

/// What a prompt's rows attend by; all kernels give the same bits.
#[derive(Debug)]
pub(super) struct PromptAttend {
    many: Tiles,
    /// These are for rows that leave most of a device without a block: smaller tiles, whose keys and values are asked for a
    /// tile ahead. `None` for wide heads.
    few: Option<Tiles>,
}

impl PromptAttend {
    /// `types` as kernels are named by the types of activations and cache.
    pub(super) fn load(modules: &Modules, kv: KvInfo, types: &str) -> Result<Option<Self>, Error> {
        let head_dim = kv.head_dim;
        if !HEAD_DIMS.contains(&head_dim) {
            return Ok(None);
        }
        let tiles = |prefix: &str, rows: usize, shared: usize| {
            let name = format!("prompt_attend_{prefix}{types}_{head_dim}");
            Ok::<_, Error>(Tiles {
                kernel: modules.kernel(&name, shared, Family::Between)?,
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

    /// Selects the tiles for so many query rows of a KV head, counted over tokens and the heads that share it.
    pub(super) fn select(&self, kv: KvInfo, rows: usize, multiprocessors: u32) -> &Tiles {
        let blocks = rows.div_ceil(FEW_ROWS) * kv.heads;
        let few = self.few.as_ref();
        // On an H100 all of them are there at once. An Orin has room for one of f16 and 128 columns on a multiprocessor, and takes
        // another after it.
        few.filter(|_| blocks <= 2 * multiprocessors as usize)
            .unwrap_or(&self.many)
    }

    /// How many splits of so many query rows of a KV head have blocks of their own: all, if a device had room for more blocks.
    pub(super) fn splits(&self, kv: KvInfo, rows: usize, multiprocessors: u32) -> usize {
        let blocks = rows.div_ceil(self.many.rows) * kv.heads;
        if blocks < multiprocessors as usize {
            apart(kv, rows)
        } else {
            1
        }
    }
}

/// Query rows of a block where rows are few.
const FEW_ROWS: usize = 64;

/// Query rows of a block where rows are many.
const fn most_rows(head_dim: usize) -> usize {
    if head_dim > 128 { 64 } else { 128 }
}

/// Bytes of shared memory: queries, keys and values, their rows apart by a bank; and keys or values as they arrive, if they
/// are quants. What is asked for ahead arrives elsewhere.
fn shared(kv: KvInfo, rows: usize, ahead: bool) -> usize {
    let KvInfo {
        head_dim, types, ..
    } = kv;
    let keys = if head_dim > 128 { 32 } else { 64 };
    let (mut places, mut arriving) = (0, 0);
    for element in types.sides() {
        if element == KvType::Q8_0 {
            let quants = keys * element.bytes(head_dim);
            places += 1;
            // Unless they are asked for ahead, values arrive where keys have.
            arriving = if ahead { arriving + quants } else { quants };
        } else {
            places += if ahead { 2 } else { 1 };
        }
    }
    (rows + places * keys) * (2 * head_dim + 16) + arriving
}

/// Splits of the longest conversation.
fn splits(kv: KvInfo) -> usize {
    if kv.head_dim > 128 {
        1
    } else {
        let later = kv.context.saturating_sub(LONG_SPLIT);
        kv.context.min(LONG_SPLIT).div_ceil(SHORT_SPLIT) + later.div_ceil(LONG_SPLIT)
    }
}

/// How many splits there is memory for to have blocks of their own.
fn apart(kv: KvInfo, rows: usize) -> usize {
    let (blocks, splits) = (rows.div_ceil(most_rows(kv.head_dim)) * kv.heads, splits(kv));
    if blocks * splits <= APART { splits } else { 1 }
}

/// Bytes that blocks leave of splits before they are merged, of so many query rows of a KV head or of any fewer: of each a maximum,
/// a sum and an output. Only few rows have splits of their own, and so may leave more than many do; no prompt is to find that
/// there is too little for it, for what moves then makes all that was recorded invalid.
pub(super) fn partial_bytes(kv: KvInfo, rows: usize) -> usize {
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

    /// What is allocated for the most rows of a prompt, at the start, serves all others.
    #[test]
    fn no_prompt_of_fewer_rows_leaves_more() {
        for (heads, context, element) in [
            (8, 21_000, KvType::F16),
            (8, 2048, KvType::Q8_0),
            (2, 131_072, KvType::F16),
            (1, 600, KvType::BF16),
        ] {
            let kv = KvInfo {
                layers: 1,
                heads,
                head_dim: 128,
                context,
                entries: 1,
                pages: 1,
                chunk: 1,
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
