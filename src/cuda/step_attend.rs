//! Selects the attention kernel of a step: on tensor cores if the types and the width of a head allow it, and otherwise
//! on lanes. `attend` launches it.

use super::cache_types::{WIDE_HEAD, multiplies};
use super::narrow::narrow;
use super::step_shared::resident;
use crate::device::{AttendArgs, Error, Kernel, LaunchOrder, Modules};
use crate::kv::{KvType, KvTypes};
use crate::quant::DType;
use crate::tape::{KvHeads, STEP_ROWS};

/// Head widths that tensor cores multiply.
const HEAD_DIMS: [usize; 5] = [64, 80, 96, 128, 256];

/// Warps of a block of each kernel, and the number of its blocks for which a multiprocessor has registers.
const LANES_WARPS: usize = 8;
const LANES_BLOCKS: usize = 2;
const TILES_WARPS: usize = 4;
const TILES_BLOCKS: usize = 3;

/// The attention kernels of steps, and of prompts without a kernel of their own.
#[derive(Debug)]
pub(super) struct StepAttend {
    /// `attend_tiles.cuh`, for steps only.
    tiles: Option<Kernel<AttendArgs>>,
    /// `attend.cuh`
    lanes: Kernel<AttendArgs>,
    kv: KvHeads,
}

/// A kernel and its launch parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Selected<'a> {
    pub(super) kernel: &'a Kernel<AttendArgs>,
    /// The most query heads of a KV head in a block.
    pub(super) group: usize,
    /// Bytes of a block's shared memory.
    pub(super) shared: usize,
    pub(super) threads: u32,
    /// The number of its blocks that fit a multiprocessor.
    pub(super) blocks: usize,
}

impl StepAttend {
    /// `types` is the part of kernel names for the types of activations and cache.
    pub(super) fn load(
        modules: &Modules,
        activation: DType,
        kv: KvHeads,
        types: &str,
    ) -> Result<Self, Error> {
        let KvHeads {
            head_dim,
            types: of,
            ..
        } = kv;
        let multiplies = multiplies(activation, of);
        let tiles = (HEAD_DIMS.contains(&head_dim) && multiplies).then(|| {
            let name = format!("step_attend_{types}_{head_dim}");
            modules.kernel(
                &name,
                tiles_shared(kv, tiles_group(head_dim)),
                LaunchOrder::Step,
            )
        });
        let width = width(of, head_dim);
        let name = if width.head_dim > WIDE_HEAD {
            format!("step_attend_{}_{types}", width.name)
        } else {
            format!("step_attend_{types}_{}", width.name)
        };
        Ok(Self {
            tiles: tiles.transpose()?,
            // Layers with other heads may use the same kernel, so its limit is that of the widest.
            lanes: modules.kernel(&name, width.shared(width.head_dim), LaunchOrder::Step)?,
            kv,
        })
    }

    /// Selects a kernel for rows with a number of query heads, for a step or a prompt.
    pub(super) fn select(&self, heads: usize, step: bool) -> Selected<'_> {
        let KvHeads {
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
            group: LANE_HEADS,
            shared: width(types, head_dim).shared(head_dim),
            threads: 32 * narrow(LANES_WARPS),
            // Two types and wide heads need more registers: `attend_mixed.cu`, `attend_wide.cu`.
            blocks: types
                .one()
                .filter(|_| head_dim <= WIDE_HEAD)
                .map_or(1, |_| LANES_BLOCKS),
        }
    }
}

/// `GROUP` of `attend.cuh`.
const LANE_HEADS: usize = 4;
/// The query heads of `attend_tiles.cuh`.
const TILE_HEADS: usize = 8;

/// Query heads of a block of `attend_tiles.cuh`; wide heads have fewer.
const fn tiles_group(head_dim: usize) -> usize {
    if head_dim > 128 { 4 } else { TILE_HEADS }
}

/// Bytes of `Memory` in `attend_tiles.cuh`: queries, keys and values of a step's rows; for each warp sixteen keys and
/// values, converted quants, and its result for each head.
fn tiles_shared(kv: KvHeads, heads: usize) -> usize {
    const UNIT: usize = 16;
    let KvHeads {
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
    TILE_HEADS * pitch + fresh + TILES_WARPS * (coming + unpacked + parts)
}

/// The distribution of a head over the lanes of a warp.
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

    /// Bytes of shared memory: four queries, the results of eight warps, and K and V of a step's rows.
    const fn shared(&self, head_dim: usize) -> usize {
        LANE_HEADS * self.head_dim * 2
            + LANES_WARPS * LANE_HEADS * head_dim * 4
            + 2 * STEP_ROWS * head_dim * 4
    }
}

/// 8 values for each lane.
const NARROW: [Width; 4] = [
    Width::of("8x1", 64),
    Width::of("16x1", 128),
    Width::of("32x1", 256),
    WIDEST,
];
/// 4 values for each lane.
const WIDE: [Width; 5] = [
    Width::of("8x1", 32),
    Width::of("16x1", 64),
    Width::of("32x1", 128),
    Width::of("32x2", 256),
    WIDEST,
];
/// In `attend_wide.cu`.
const WIDEST: Width = Width::of("wide", 512);

/// The narrowest width that a head fits, or else the widest.
fn width(cache: KvTypes, head_dim: usize) -> &'static Width {
    let widths: &[Width] = match cache.k {
        KvType::F32 => &WIDE,
        KvType::F16 | KvType::BF16 | KvType::Q8_0 => &NARROW,
    };
    let fits = widths.iter().position(|width| head_dim <= width.head_dim);
    &widths[fits.unwrap_or(widths.len() - 1)]
}
