//! The kernels by what they do, and which of a family suits the types and shapes at hand.

use std::collections::HashMap;

use super::product;
use super::shapes::SHAPES;
use super::storage::Storage;
use crate::device::{
    AttendArgs, ChooseArgs, EmbedArgs, Error, Family, Kernel, Modules, NormArgs, PromptArgs,
    RopeStoreArgs, STEP_ROWS, StepArgs, SumsArgs,
};
use crate::model::Format;
use crate::tape::{DType, KvInfo, KvType};

/// The widest row that a step's product takes: rows of f32 leave less room.
pub(super) const fn widest_row(format: Format) -> usize {
    match format {
        Format::F32 => 16 << 10,
        _ => 32 << 10,
    }
}
/// Blocks of a step's product on a multiprocessor.
pub(super) const STEP_BLOCKS: u32 = 2;

/// All kernels that a model's tapes may need, for one device, one type of activations and one cache.
#[derive(Debug)]
pub(super) struct Kernels {
    pub(super) embed: Kernel<EmbedArgs>,
    pub(super) choose: Kernel<ChooseArgs>,
    pub(super) norm: Kernel<NormArgs>,
    /// Of the rows of a step of several.
    pub(super) step_norm: Kernel<NormArgs>,
    pub(super) sums: Kernel<SumsArgs>,
    pub(super) rope_store: Kernel<RopeStoreArgs>,
    /// Of a step, and its shared memory.
    pub(super) attend: (Kernel<AttendArgs>, usize),
    /// The same of a prompt, on the tensor cores, which multiply two of a type: `None` for a cache of numbers of another,
    /// and for uncommon heads.
    pub(super) prompt_attend: Option<(Kernel<AttendArgs>, usize)>,
    /// Of each form of weights, of one row and of several.
    step: HashMap<Storage, [Kernel<StepArgs>; 2]>,
    /// Of each form of weights, by shape.
    prompt: HashMap<Storage, Vec<Option<Kernel<PromptArgs>>>>,
}

impl Kernels {
    pub(super) fn load(
        modules: &Modules,
        activation: DType,
        kv: KvInfo,
        storages: &[Storage],
    ) -> Result<Self, Error> {
        let name = activation.name();
        let product = |of: Storage| -> Result<_, Error> {
            let kernels = SHAPES.iter().map(|shape| {
                if !shape.suits(of) {
                    return Ok(None);
                }
                let name = format!("prompt_{name}_{}_{}", of.name(), shape.name);
                let shared = shape.shared(of) as usize;
                modules.kernel(&name, shared, Family::Prompt).map(Some)
            });
            Ok((of, kernels.collect::<Result<_, _>>()?))
        };
        let step = |of: Storage| {
            let kernel = |rows: usize, shared: usize| {
                modules.kernel(
                    &format!("step_{name}_{}_x{rows}", of.name()),
                    shared,
                    Family::Step,
                )
            };
            let one = kernel(1, product::shared(of, 1, widest_row(of.format())))?;
            let several = kernel(STEP_ROWS, product::MOST_SHARED)?;
            Ok::<_, Error>((of, [one, several]))
        };
        // By the activations' type and the cache's; of quants by what they become.
        let (head_dim, quants) = (kv.head_dim, kv.element == KvType::Q8_0);
        let types = if quants {
            format!("q8_{name}")
        } else {
            format!("{name}_{}", kv.element.name())
        };
        let width = attend::width(kv.element, head_dim);
        let prompt_attend = (prompt_attend::HEAD_DIMS.contains(&head_dim)
            && (quants || kv.element.number() == Some(activation)))
        .then(|| {
            let name = if quants { &types } else { name };
            let kernel = format!("prompt_attend_{name}_{head_dim}");
            let shared = prompt_attend::shared(kv.element, head_dim);
            let kernel = modules.kernel(&kernel, shared, Family::Prompt)?;
            Ok::<_, Error>((kernel, shared))
        });
        Ok(Self {
            embed: modules.kernel("embed", 0, Family::Step)?,
            choose: modules.kernel("choose", 0, Family::Step)?,
            norm: modules.kernel(&format!("norm_{name}"), 0, Family::Prompt)?,
            step_norm: modules.kernel(&format!("step_norm_{name}"), 0, Family::Step)?,
            sums: modules.kernel(&format!("column_sums_{name}"), 0, Family::Prompt)?,
            rope_store: modules.kernel(&format!("rope_store_{types}"), 0, Family::Prompt)?,
            attend: {
                let kernel = format!("attend_{types}_{}", width.name);
                let shared = width.shared(head_dim);
                (modules.kernel(&kernel, shared, Family::Step)?, shared)
            },
            prompt_attend: prompt_attend.transpose()?,
            step: storages
                .iter()
                .map(|of| step(*of))
                .collect::<Result<_, _>>()?,
            prompt: storages
                .iter()
                .map(|of| product(*of))
                .collect::<Result<_, _>>()?,
        })
    }

    /// Products of a step of so many rows.
    pub(super) fn step(&self, of: Storage, rows: u32) -> Option<&Kernel<StepArgs>> {
        let [one, several] = self.step.get(&of)?;
        Some(if rows == 1 { one } else { several })
    }

    /// Products of a prompt in a shape that suits the weights.
    pub(super) fn prompt(&self, of: Storage, shape: usize) -> Option<&Kernel<PromptArgs>> {
        self.prompt.get(&of)?.get(shape)?.as_ref()
    }
}

/// `kernels/prompt/attend.cu`.
pub(super) mod prompt_attend {
    use crate::tape::KvType;

    pub(super) const HEAD_DIMS: [usize; 5] = [64, 80, 96, 128, 256];
    pub(in super::super) const THREADS: u32 = 128;

    /// Query rows of a block, counted over tokens and the heads that share a KV head.
    pub(in super::super) const fn rows(head_dim: usize) -> usize {
        if head_dim > 128 { 64 } else { 128 }
    }

    /// Bytes of shared memory: queries, keys and values, their rows apart by a bank; and quants as they arrive.
    pub(super) const fn shared(cache: KvType, head_dim: usize) -> usize {
        let keys = if head_dim > 128 { 32 } else { 64 };
        let arriving = match cache {
            KvType::F32 | KvType::F16 | KvType::BF16 => 0,
            KvType::Q8_0 => keys * cache.bytes(head_dim),
        };
        (rows(head_dim) + 2 * keys) * (2 * head_dim + 16) + arriving
    }
}

/// `kernels/step/attend.cu`.
mod attend {
    use crate::tape::{KvType, STEP_ROWS};

    /// How heads of the cache are spread over the lanes of a warp.
    #[derive(Debug)]
    pub(super) struct Width {
        pub(super) name: &'static str,
        /// The widest head.
        pub(super) head_dim: usize,
    }

    /// Of 8 values a lane.
    const NARROW: [Width; 3] = [
        Width {
            name: "8x1",
            head_dim: 64,
        },
        Width {
            name: "16x1",
            head_dim: 128,
        },
        Width {
            name: "32x1",
            head_dim: 256,
        },
    ];
    /// Of 4.
    const WIDE: [Width; 4] = [
        Width {
            name: "8x1",
            head_dim: 32,
        },
        Width {
            name: "16x1",
            head_dim: 64,
        },
        Width {
            name: "32x1",
            head_dim: 128,
        },
        Width {
            name: "32x2",
            head_dim: 256,
        },
    ];

    /// The narrowest that a head fits; the widest, if none is.
    pub(super) fn width(cache: KvType, head_dim: usize) -> &'static Width {
        let widths: &[Width] = match cache {
            KvType::F32 => &WIDE,
            KvType::F16 | KvType::BF16 | KvType::Q8_0 => &NARROW,
        };
        let fits = widths.iter().position(|width| head_dim <= width.head_dim);
        &widths[fits.unwrap_or(widths.len() - 1)]
    }

    impl Width {
        /// Bytes of shared memory: four queries, what eight warps have made of them, and K and V of a step's rows.
        pub(super) const fn shared(&self, head_dim: usize) -> usize {
            4 * self.head_dim * 2 + 8 * 4 * head_dim * 4 + 2 * STEP_ROWS * head_dim * 4
        }
    }
}
