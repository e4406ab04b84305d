//! The kernels by what they do, and which of a family suits the types and shapes at hand.

use std::collections::HashMap;

use super::product;
use super::shapes::SHAPES;
use super::storage::Storage;
use crate::device::{
    AttendArgs, Carveout, ChooseArgs, EmbedArgs, Error, Kernel, Modules, NormArgs, Parameters,
    PromptArgs, RopeStoreArgs, StepArgs, SumsArgs,
};
use crate::tape::DType;

/// The widest row that a step's product takes.
pub(super) const WIDEST_ROW: usize = 32 << 10;
/// Blocks of a step's product on a multiprocessor.
pub(super) const STEP_BLOCKS: u32 = 2;
/// Shared memory of attention at its widest.
const ATTEND_SHARED: usize = 40 << 10;

/// All kernels that a model's tapes may need, for one device and one type of activations.
#[derive(Debug)]
pub(super) struct Kernels {
    pub(super) embed: Kernel<EmbedArgs>,
    pub(super) choose: Kernel<ChooseArgs>,
    pub(super) norm: Kernel<NormArgs>,
    pub(super) sums: Kernel<SumsArgs>,
    rope_store: Vec<Kernel<RopeStoreArgs>>,
    prompt_rope_store: Vec<Kernel<RopeStoreArgs>>,
    attend: Vec<Kernel<AttendArgs>>,
    /// Of each form of weights.
    step: HashMap<Storage, Kernel<StepArgs>>,
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
                modules
                    .kernel_with(&name, shared, Carveout::Whole)
                    .map(Some)
            });
            Ok((of, kernels.collect::<Result<_, _>>()?))
        };
        let prompt_attend = |head_dim: usize| {
            let shared = prompt_attend::shared(head_dim);
            let kernel = format!("prompt_attend_{name}_{head_dim}");
            let kernel = modules.kernel_with(&kernel, shared, Carveout::Whole)?;
            Ok::<_, Error>((head_dim, kernel))
        };
        let step = |of: Storage| {
            let kernel = format!("step_{name}_{}", of.name());
            let shared = product::shared(WIDEST_ROW);
            Ok::<_, Error>((of, modules.kernel(&kernel, shared)?))
        };
        Ok(Self {
            embed: modules.kernel("embed", 0)?,
            choose: modules.kernel("choose", 0)?,
            norm: modules.kernel_with(&format!("norm_{name}"), 0, Carveout::Whole)?,
            sums: modules.kernel_with(&format!("column_sums_{name}"), 0, Carveout::Whole)?,
            rope_store: by_cache(modules, &format!("rope_store_{name}"), 0, Carveout::Half)?,
            prompt_rope_store: by_cache(
                modules,
                &format!("prompt_rope_store_{name}"),
                0,
                Carveout::Whole,
            )?,
            attend: by_cache(
                modules,
                &format!("attend_{name}"),
                ATTEND_SHARED,
                Carveout::Half,
            )?,
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

    pub(super) fn rope_store(&self, step: bool, kv: DType) -> &Kernel<RopeStoreArgs> {
        let kernels = if step {
            &self.rope_store
        } else {
            &self.prompt_rope_store
        };
        &kernels[kv as usize]
    }

    pub(super) fn attend(&self, kv: DType) -> &Kernel<AttendArgs> {
        &self.attend[kv as usize]
    }

    /// Products of a step.
    pub(super) fn step(&self, of: Storage) -> Option<&Kernel<StepArgs>> {
        self.step.get(&of)
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

/// By the cache's type, in the order of `DType`.
fn by_cache<A: Parameters>(
    modules: &Modules,
    name: &str,
    shared: usize,
    carveout: Carveout,
) -> Result<Vec<Kernel<A>>, Error> {
    let names = DType::ALL.map(|kv| format!("{name}_{}", kv.name()));
    names
        .into_iter()
        .map(|name| modules.kernel_with(&name, shared, carveout))
        .collect()
}
