//! Which kernel attends for a step: on the tensor cores where both their types and the width of a head allow it, by lanes
//! elsewhere. What it launches with is for `attend`.

use super::cache_types::multiplies;
use super::narrow;
use super::step_shared::resident;
use crate::device::{AttendArgs, Error, Family, Kernel, Modules};
use crate::tape::{DType, KvInfo, KvType, KvTypes, STEP_ROWS};

/// Widths of heads that the tensor cores multiply.
pub(super) const HEAD_DIMS: [usize; 5] = [64, 80, 96, 128, 256];

/// Warps of a block of each kernel, and how many of its blocks a multiprocessor has registers for.
const LANES_WARPS: usize = 8;
const LANES_BLOCKS: usize = 2;
const TILES_WARPS: usize = 4;
const TILES_BLOCKS: usize = 3;

/// What a step's rows attend by, and prompts that have no kernel of their own.
#[derive(Debug)]
pub(super) struct StepAttend {
    /// `attend_tiles.cuh`; for steps alone.
    tiles: Option<Kernel<AttendArgs>>,
    /// `attend.cuh`
    lanes: Kernel<AttendArgs>,
    kv: KvInfo,
}

/// A kernel, and what a launch of it must know.
#[derive(Clone, Copy, Debug)]
pub(super) struct Selected<'a> {
    pub(super) kernel: &'a Kernel<AttendArgs>,
    /// Query heads of one KV head that a block takes, at most.
    pub(super) group: usize,
    /// Bytes of a block's shared memory.
    pub(super) shared: usize,
    pub(super) threads: u32,
    /// As many of its blocks as a multiprocessor has room for.
    pub(super) blocks: usize,
}

impl StepAttend {
    /// `types` as kernels are named by the types of activations and cache.
    pub(super) fn load(
        modules: &Modules,
        activation: DType,
        kv: KvInfo,
        types: &str,
    ) -> Result<Self, Error> {
        let KvInfo {
            head_dim,
            types: of,
            ..
        } = kv;
        let multiplies = multiplies(activation, of);
        let tiles = (HEAD_DIMS.contains(&head_dim) && multiplies).then(|| {
            let name = format!("attend_{types}_{head_dim}");
            modules.kernel(&name, tiles_shared(kv, tiles_group(head_dim)), Family::Step)
        });
        let width = width(of, head_dim);
        let name = format!("attend_{types}_{}", width.name);
        Ok(Self {
            tiles: tiles.transpose()?,
            lanes: modules.kernel(&name, width.shared(head_dim), Family::Step)?,
            kv,
        })
    }

    /// Selects a kernel for rows with so many query heads, of a step or of a prompt.
    pub(super) fn select(&self, heads: usize, step: bool) -> Selected<'_> {
        let KvInfo {
            head_dim, types, ..
        } = self.kv;
        if let Some(kernel) = self.tiles.as_ref().filter(|_| step) {
            let group = tiles_group(head_dim);
            let shared = tiles_shared(self.kv, group.min(heads / self.kv.heads));
            return Selected {
                kernel,
                group,
                shared,
                threads: 32 * narrow(TILES_WARPS),
                blocks: resident(shared).clamp(1, TILES_BLOCKS),
            };
        }
        Selected {
            kernel: &self.lanes,
            group: LANES,
            shared: width(types, head_dim).shared(head_dim),
            threads: 32 * narrow(LANES_WARPS),
            // Two types take more registers: `attend_mixed.cu`.
            blocks: types.one().map_or(1, |_| LANES_BLOCKS),
        }
    }
}

/// `GROUP` of `attend.cuh`.
const LANES: usize = 4;
/// Query heads that `attend_tiles.cuh` has room for.
const TILES: usize = 8;

/// Query heads of a block of `attend_tiles.cuh`: of wide ones it takes fewer.
const fn tiles_group(head_dim: usize) -> usize {
    if head_dim > 128 { 4 } else { TILES }
}

/// `Memory` of `attend_tiles.cuh`: queries, keys and values of a step's rows, of each warp a unit of sixteen keys and one of
/// values, what quants become, and what each warp has of each head.
fn tiles_shared(kv: KvInfo, heads: usize) -> usize {
    const UNIT: usize = 16;
    let KvInfo {
        head_dim, types, ..
    } = kv;
    let pitch = 2 * head_dim + 16;
    let (mut coming, mut unpacked) = (0, 0);
    for element in types.sides() {
        coming += match element {
            KvType::Q8_0 => UNIT * element.bytes(head_dim),
            KvType::F32 | KvType::F16 | KvType::BF16 => UNIT * pitch,
        };
        if element == KvType::Q8_0 {
            unpacked = UNIT * pitch;
        }
    }
    let fresh = STEP_ROWS * 2 * 2 * head_dim;
    let parts = heads * (head_dim + 4) * 4;
    TILES * pitch + fresh + TILES_WARPS * (coming + unpacked + parts)
}

/// How heads of the cache are spread over the lanes of a warp.
#[derive(Debug)]
struct Width {
    name: &'static str,
    /// The widest head.
    head_dim: usize,
}

impl Width {
    const fn of(name: &'static str, head_dim: usize) -> Self {
        Self { name, head_dim }
    }

    /// Bytes of shared memory: four queries, what eight warps have made of them, and K and V of a step's rows.
    const fn shared(&self, head_dim: usize) -> usize {
        LANES * self.head_dim * 2
            + LANES_WARPS * LANES * head_dim * 4
            + 2 * STEP_ROWS * head_dim * 4
    }
}

/// These have 8 values a lane.
const NARROW: [Width; 3] = [
    Width::of("8x1", 64),
    Width::of("16x1", 128),
    Width::of("32x1", 256),
];
/// These have 4.
const WIDE: [Width; 4] = [
    Width::of("8x1", 32),
    Width::of("16x1", 64),
    Width::of("32x1", 128),
    Width::of("32x2", 256),
];

/// The narrowest that a head fits; the widest, if none is.
fn width(cache: KvTypes, head_dim: usize) -> &'static Width {
    let widths: &[Width] = match cache.k {
        KvType::F32 => &WIDE,
        KvType::F16 | KvType::BF16 | KvType::Q8_0 => &NARROW,
    };
    let fits = widths.iter().position(|width| head_dim <= width.head_dim);
    &widths[fits.unwrap_or(widths.len() - 1)]
}
