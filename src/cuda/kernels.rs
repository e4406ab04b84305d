//! The kernels by what they do, and which of a family suits the types and shapes at hand.

use std::collections::HashMap;

use super::shapes::SHAPES;
use super::step_attend::{HEAD_DIMS, StepAttend};
use super::step_shared::{self, Fit};
use crate::device::{
    ALL_SHARED, AttendArgs, EmbedArgs, Error, Family, Kernel, Modules, NormArgs, PromptArgs,
    RopeStoreArgs, SampleArgs, StepArgs, SumsArgs,
};
use crate::quant::{Format, Storage};
use crate::tape::{DType, KvInfo, KvType};

/// The widest row that a step's product takes: rows of f32 leave less room.
pub(super) const fn widest_row(format: Format) -> usize {
    match format {
        Format::F32 => 16 << 10,
        _ => 32 << 10,
    }
}

/// All kernels that a model's tapes may need, for one device, one type of activations and one cache.
#[derive(Debug)]
pub(super) struct Kernels {
    pub(super) embed: Kernel<EmbedArgs>,
    pub(super) sample: Kernel<SampleArgs>,
    pub(super) norm: Kernel<NormArgs>,
    pub(super) sums: Kernel<SumsArgs>,
    pub(super) rope_store: Kernel<RopeStoreArgs>,
    pub(super) step_attend: StepAttend,
    /// It runs on the tensor cores, which multiply two of a type; beside it is its shared memory. `None` for other caches and
    /// uncommon heads.
    pub(super) prompt_attend: Option<(Kernel<AttendArgs>, usize)>,
    step: HashMap<Storage, StepKernels>,
    /// Each form of weights has some, by shape.
    prompt: HashMap<Storage, Vec<Option<Kernel<PromptArgs>>>>,
}

/// Products of a step, for weights of one form.
#[derive(Debug)]
pub(super) struct StepKernels {
    one: Kernel<StepArgs>,
    pub(super) several: Kernel<StepArgs>,
    /// For several rows whose columns have no room together.
    phased: Kernel<StepArgs>,
}

impl StepKernels {
    pub(super) fn of(&self, fit: Fit) -> &Kernel<StepArgs> {
        match fit {
            Fit { rows: 1, .. } => &self.one,
            Fit { phases: 1, .. } => &self.several,
            Fit { .. } => &self.phased,
        }
    }
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
            let kernel = |rows: &str, shared: usize| {
                let name = format!("step_{name}_{}_{rows}", of.name());
                modules.kernel(&name, shared, Family::Step)
            };
            let one = step_shared::bytes(of, 1, widest_row(of.format()), 1);
            let kernels = StepKernels {
                one: kernel("x1", one)?,
                several: kernel("x8", ALL_SHARED)?,
                phased: kernel("x8_phased", ALL_SHARED)?,
            };
            Ok::<_, Error>((of, kernels))
        };
        // They are named by the activations' type and the cache's; quants by what they become.
        let (head_dim, quants) = (kv.head_dim, kv.element == KvType::Q8_0);
        let types = if quants {
            format!("q8_{name}")
        } else {
            format!("{name}_{}", kv.element.name())
        };
        let prompt_attend = (HEAD_DIMS.contains(&head_dim)
            && (quants || kv.element.number() == Some(activation)))
        .then(|| {
            let name = if quants { &types } else { name };
            let kernel = format!("prompt_attend_{name}_{head_dim}");
            let shared = prompt_attend::shared(head_dim, quants.then_some(kv.element));
            let kernel = modules.kernel(&kernel, shared, Family::Prompt)?;
            Ok::<_, Error>((kernel, shared))
        });
        Ok(Self {
            embed: modules.kernel("embed", 0, Family::Step)?,
            sample: modules.kernel("sample", 0, Family::Step)?,
            norm: modules.kernel(&format!("norm_{name}"), 0, Family::Prompt)?,
            sums: modules.kernel(&format!("column_sums_{name}"), 0, Family::Prompt)?,
            rope_store: modules.kernel(&format!("rope_store_{types}"), 0, Family::Prompt)?,
            step_attend: StepAttend::load(modules, activation, kv, &types)?,
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

    /// Products of a step.
    pub(super) fn step(&self, of: Storage) -> Option<&StepKernels> {
        self.step.get(&of)
    }

    /// Products of a prompt in a shape that suits the weights.
    pub(super) fn prompt(&self, of: Storage, shape: usize) -> Option<&Kernel<PromptArgs>> {
        self.prompt.get(&of)?.get(shape)?.as_ref()
    }
}

/// `kernels/prompt/attend.cu`.
pub(super) mod prompt_attend {
    use crate::tape::{KvInfo, KvType};

    pub(in super::super) const THREADS: u32 = 128;
    /// Positions that are summed by themselves: `PROMPT_SPLIT`.
    const SPLIT: usize = 4096;
    /// Blocks that may have a split each. More keep a device busy without that, and take more memory.
    const APART: usize = 256;

    /// Query rows of a block, counted over tokens and the heads that share a KV head.
    pub(in super::super) const fn rows(head_dim: usize) -> usize {
        if head_dim > 128 { 64 } else { 128 }
    }

    /// Bytes of shared memory: queries, keys and values, their rows apart by a bank; and keys or values as they arrive,
    /// if they are quants.
    pub(in super::super) fn shared(head_dim: usize, quants: Option<KvType>) -> usize {
        let keys = if head_dim > 128 { 32 } else { 64 };
        let arriving = quants.map_or(0, |quants| keys * quants.bytes(head_dim));
        (rows(head_dim) + 2 * keys) * (2 * head_dim + 16) + arriving
    }

    /// Splits of the longest conversation.
    fn splits(kv: KvInfo) -> usize {
        if kv.head_dim > 128 {
            1
        } else {
            kv.context.div_ceil(SPLIT)
        }
    }

    /// How many splits of so many query rows of a KV head have blocks of their own.
    pub(in super::super) fn apart(kv: KvInfo, rows: usize) -> usize {
        let (blocks, splits) = (
            rows.div_ceil(self::rows(kv.head_dim)) * kv.heads,
            splits(kv),
        );
        if blocks * splits <= APART { splits } else { 1 }
    }

    /// Bytes that blocks leave of splits before they are merged: of each query row of a KV head its maximum, sum and output.
    pub(in super::super) fn partial_bytes(kv: KvInfo, rows: usize) -> usize {
        if splits(kv) == 1 {
            return 0;
        }
        let of_block = self::rows(kv.head_dim);
        let blocks = rows.div_ceil(of_block) * kv.heads * apart(kv, rows);
        blocks * of_block * (kv.head_dim + 8) * 4
    }
}
