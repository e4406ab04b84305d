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
use crate::tape::DType;

/// The widest row that a step's product takes: rows of f32 leave less room.
pub(super) const fn widest_row(format: Format) -> usize {
    match format {
        Format::F32 => 16 << 10,
        _ => 32 << 10,
    }
}
/// Blocks of a step's product on a multiprocessor.
pub(super) const STEP_BLOCKS: u32 = 2;

/// All kernels that a model's tapes may need, for one device and one type of activations.
#[derive(Debug)]
pub(super) struct Kernels {
    pub(super) embed: Kernel<EmbedArgs>,
    pub(super) choose: Kernel<ChooseArgs>,
    pub(super) norm: Kernel<NormArgs>,
    /// Of the rows of a step of several.
    pub(super) step_norm: Kernel<NormArgs>,
    pub(super) sums: Kernel<SumsArgs>,
    rope_store: Vec<Kernel<RopeStoreArgs>>,
    /// Of each type of the cache, by width.
    attend: Vec<Vec<Kernel<AttendArgs>>>,
    /// Of each form of weights, of one row and of several.
    step: HashMap<Storage, [Kernel<StepArgs>; 2]>,
    /// Of each form of weights, by shape.
    prompt: HashMap<Storage, Vec<Option<Kernel<PromptArgs>>>>,
    /// Of a cache in the activations' type.
    prompt_attend: HashMap<usize, Kernel<AttendArgs>>,
    activation: DType,
}

impl Kernels {
    pub(super) fn load(
        modules: &Modules,
        activation: DType,
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
        let prompt_attend = |head_dim: usize| {
            let shared = prompt_attend::shared(head_dim);
            let kernel = format!("prompt_attend_{name}_{head_dim}");
            let kernel = modules.kernel(&kernel, shared, Family::Prompt)?;
            Ok::<_, Error>((head_dim, kernel))
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
        let attend = |cache: DType| {
            let widths = attend::widths(cache).iter();
            let kernels = widths.map(|width| {
                let kernel = format!("attend_{name}_{}_{}", cache.name(), width.name);
                modules.kernel(&kernel, width.shared(width.head_dim), Family::Step)
            });
            kernels.collect::<Result<Vec<_>, Error>>()
        };
        Ok(Self {
            embed: modules.kernel("embed", 0, Family::Step)?,
            choose: modules.kernel("choose", 0, Family::Step)?,
            norm: modules.kernel(&format!("norm_{name}"), 0, Family::Prompt)?,
            step_norm: modules.kernel(&format!("step_norm_{name}"), 0, Family::Step)?,
            sums: modules.kernel(&format!("column_sums_{name}"), 0, Family::Prompt)?,
            rope_store: DType::ALL
                .map(|cache| format!("rope_store_{name}_{}", cache.name()))
                .iter()
                .map(|name| modules.kernel(name, 0, Family::Prompt))
                .collect::<Result<_, _>>()?,
            attend: DType::ALL
                .into_iter()
                .map(attend)
                .collect::<Result<_, _>>()?,
            step: storages
                .iter()
                .map(|of| step(*of))
                .collect::<Result<_, _>>()?,
            prompt: storages
                .iter()
                .map(|of| product(*of))
                .collect::<Result<_, _>>()?,
            prompt_attend: prompt_attend::HEAD_DIMS
                .into_iter()
                .map(prompt_attend)
                .collect::<Result<_, _>>()?,
            activation,
        })
    }

    pub(super) fn rope_store(&self, kv: DType) -> &Kernel<RopeStoreArgs> {
        &self.rope_store[kv as usize]
    }

    /// Attention of a step, and its shared memory.
    pub(super) fn attend(&self, kv: DType, head_dim: usize) -> (&Kernel<AttendArgs>, usize) {
        let widths = attend::widths(kv);
        let fits = widths.iter().position(|width| head_dim <= width.head_dim);
        let index = fits.unwrap_or(widths.len() - 1);
        let shared = widths[index].shared(head_dim);
        (&self.attend[kv as usize][index], shared)
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

    /// On the tensor cores, which multiply two of a type: `None` for other caches and uncommon heads.
    pub(super) fn prompt_attend(&self, kv: DType, head_dim: usize) -> Option<&Kernel<AttendArgs>> {
        let kernel = self.prompt_attend.get(&head_dim);
        kernel.filter(|_| kv == self.activation)
    }
}

/// `kernels/prompt/attend.cu`.
pub(super) mod prompt_attend {
    pub(in super::super) const HEAD_DIMS: [usize; 5] = [64, 80, 96, 128, 256];
    pub(in super::super) const THREADS: u32 = 128;

    /// Query rows of a block, counted over tokens and the heads that share a KV head.
    pub(in super::super) const fn rows(head_dim: usize) -> usize {
        if head_dim > 128 { 64 } else { 128 }
    }

    /// Bytes of shared memory: queries, keys and values, their rows apart by a bank.
    pub(in super::super) const fn shared(head_dim: usize) -> usize {
        let keys = if head_dim > 128 { 32 } else { 64 };
        (rows(head_dim) + 2 * keys) * (2 * head_dim + 16)
    }
}

/// `kernels/step/attend.cu`.
mod attend {
    use crate::tape::{DType, STEP_ROWS};

    /// How heads of the cache are spread over the lanes of a warp.
    #[derive(Debug)]
    pub(super) struct Width {
        pub(super) name: &'static str,
        /// The widest head.
        pub(super) head_dim: usize,
    }

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

    pub(super) fn widths(cache: DType) -> &'static [Width] {
        match cache {
            DType::F32 => &WIDE,
            DType::F16 | DType::BF16 => &NARROW,
        }
    }

    impl Width {
        /// Bytes of shared memory: four queries, what eight warps have made of them, and K and V of a step's rows.
        pub(super) const fn shared(&self, head_dim: usize) -> usize {
            4 * self.head_dim * 2 + 8 * 4 * head_dim * 4 + 2 * STEP_ROWS * head_dim * 4
        }
    }
}
