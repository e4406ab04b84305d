//! The kernels by their purpose, and the selection of those for the types and shapes of a model.

use std::collections::HashMap;

use super::cache_types::{WIDE_HEAD, multiplies, names};
use super::encode_kernels::EncodeKernels;
use super::prompt_attend::PromptAttend;
use super::recurrent_kernels::RecurrentKernels;
use super::shapes::SHAPES;
use super::step_attend::StepAttend;
use super::step_shared::{self, Fit};
use crate::device::{
    ALL_SHARED, AddNormedArgs, EmbedArgs, Error, GateArgs, HiddenArgs, Kernel, LaunchOrder,
    LayerInputsArgs, MixedStepArgs, Modules, NormArgs, PromptArgs, RopeStoreArgs, SampleArgs,
    ShowArgs, SoftcapArgs, StepArgs, SumsArgs,
};
use crate::quant::{DType, Format, Storage};
use crate::tape::{KvHeads, KvInfo, StateInfo};

/// The widest row of a step's product. Rows of f32 leave less room.
pub(super) const fn widest_row(format: Format) -> usize {
    match format {
        Format::F32 => 16 << 10,
        _ => 32 << 10,
    }
}

/// Pairs of storage forms within a layer that one kernel multiplies: `kernels/step/mixed.cu`.
const MIXED: [(Format, Format); 2] = [(Format::Q4_K, Format::Q6_K), (Format::Q5_K, Format::Q6_K)];

/// All kernels that a model's tapes may need, for one device, one type of activations and one cache.
#[derive(Debug)]
pub(super) struct Kernels {
    pub(super) embed: Kernel<EmbedArgs>,
    pub(super) sample: Kernel<SampleArgs>,
    pub(super) norm: Kernel<NormArgs>,
    pub(super) sums: Kernel<SumsArgs>,
    pub(super) add_normed: Kernel<AddNormedArgs>,
    /// Norms in f32, into some columns of a buffer.
    pub(super) norm_columns: Kernel<NormArgs>,
    pub(super) layer_inputs: Kernel<LayerInputsArgs>,
    pub(super) gate: Kernel<GateArgs>,
    pub(super) softcap: Kernel<SoftcapArgs>,
    pub(super) show: Kernel<ShowArgs>,
    /// In models with an assistant.
    pub(super) keep_hidden: Kernel<HiddenArgs>,
    pub(super) join_hidden: Kernel<HiddenArgs>,
    /// In vision towers.
    pub(super) encode: Option<EncodeKernels>,
    /// In models with recurrent layers.
    pub(super) recurrent: Option<RecurrentKernels>,
    /// For each kind of the cache's layers; `None` for a kind without layers.
    pub(super) cache: [Option<CacheKernels>; 2],
    step: HashMap<Storage, StepKernels>,
    mixed: HashMap<(Storage, Storage), MixedKernels>,
    /// The kernels of each storage form, by shape.
    prompt: HashMap<Storage, Vec<Option<Kernel<PromptArgs>>>>,
}

/// The kernels that write and read the cache, for its types.
#[derive(Debug)]
pub(super) struct CacheKernels {
    pub(super) rope_store: Kernel<RopeStoreArgs>,
    pub(super) step_attend: StepAttend,
    /// Kernels for tensor cores, which multiply two values of one type; `None` for other caches and uncommon heads.
    pub(super) prompt_attend: Option<PromptAttend>,
}

impl CacheKernels {
    /// Loads the kernels of each kind of layers that a cache has.
    pub(super) fn of_kinds(
        modules: &Modules,
        activation: DType,
        kv: KvInfo,
    ) -> Result<[Option<Self>; 2], Error> {
        let mut kernels = [None, None];
        for kind in kv.kind_indices() {
            kernels[kind] = Some(Self::load(modules, activation, kv.heads_of_kind(kind))?);
        }
        Ok(kernels)
    }

    fn load(modules: &Modules, activation: DType, kv: KvHeads) -> Result<Self, Error> {
        let types = names(activation, kv.types);
        let attends = multiplies(activation, kv.types).then(|| {
            let is_number = kv.types.one().is_some_and(|one| one.number().is_some());
            let name = if is_number {
                activation.name()
            } else {
                types.as_str()
            };
            PromptAttend::load(modules, kv, name)
        });
        let wide = if kv.head_dim > WIDE_HEAD { "wide_" } else { "" };
        let rope_store = format!("rope_store_{wide}{types}");
        Ok(Self {
            rope_store: modules.kernel(&rope_store, 0, LaunchOrder::Between)?,
            step_attend: StepAttend::load(modules, activation, kv, &types)?,
            prompt_attend: attends.transpose()?.flatten(),
        })
    }
}

/// Products of a step with weights of one storage form.
#[derive(Debug)]
pub(super) struct StepKernels {
    one: Kernel<StepArgs>,
    pub(super) several: Kernel<StepArgs>,
    /// Multiplies rows whose columns do not fit shared memory together.
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

/// Products of a step with weights of two storage forms.
#[derive(Debug)]
pub(super) struct MixedKernels {
    one: Kernel<MixedStepArgs>,
    pub(super) several: Kernel<MixedStepArgs>,
}

impl MixedKernels {
    pub(super) fn of(&self, fit: Fit) -> &Kernel<MixedStepArgs> {
        if fit.rows == 1 {
            &self.one
        } else {
            &self.several
        }
    }
}

impl Kernels {
    pub(super) fn load(
        modules: &Modules,
        activation: DType,
        (kv, state, tower): (KvInfo, Option<StateInfo>, bool),
        storages: &[Storage],
    ) -> Result<Self, Error> {
        let name = activation.name();
        let product = |of: Storage| -> Result<_, Error> {
            let kernels = SHAPES.iter().map(|shape| {
                if !shape.suits(of) {
                    return Ok(None);
                }
                let name = format!("prompt_product_{name}_{}_{}", of.name(), shape.kernel(of));
                let shared = shape.most_shared(of) as usize;
                modules.kernel(&name, shared, LaunchOrder::Prompt).map(Some)
            });
            Ok((of, kernels.collect::<Result<_, _>>()?))
        };
        let step = |of: Storage| {
            let kernel = |rows: &str, shared: usize| {
                let name = format!("step_product_{name}_{}_{rows}", of.name());
                modules.kernel(&name, shared, LaunchOrder::Step)
            };
            let one = step_shared::bytes(of, 1, widest_row(of.format()), 1);
            let kernels = StepKernels {
                one: kernel("x1", one)?,
                several: kernel("x8", ALL_SHARED)?,
                phased: kernel("x8_phased", ALL_SHARED)?,
            };
            Ok::<_, Error>((of, kernels))
        };
        let mixed = |(first, second): (Storage, Storage)| {
            let kernel = |rows: &str, shared: usize| {
                let name = format!(
                    "step_product_{name}_{}_{}_{rows}",
                    first.name(),
                    second.name()
                );
                modules.kernel(&name, shared, LaunchOrder::Step)
            };
            let one = [first, second]
                .map(|of| step_shared::bytes(of, 1, widest_row(of.format()), 1))
                .into_iter()
                .max();
            let kernels = MixedKernels {
                one: kernel("x1", one.unwrap_or_default())?,
                several: kernel("x8", ALL_SHARED)?,
            };
            Ok::<_, Error>(((first, second), kernels))
        };
        let pairs = MIXED.map(|(first, second)| (Storage::Stored(first), Storage::Stored(second)));
        let both =
            |pair: &(Storage, Storage)| storages.contains(&pair.0) && storages.contains(&pair.1);
        Ok(Self {
            embed: modules.kernel("embed", 0, LaunchOrder::Step)?,
            sample: modules.kernel("sample", 0, LaunchOrder::Step)?,
            norm: modules.kernel(&format!("norm_{name}"), 0, LaunchOrder::Between)?,
            sums: modules.kernel(&format!("column_sums_{name}"), 0, LaunchOrder::Between)?,
            add_normed: modules.kernel("add_normed", 0, LaunchOrder::Between)?,
            norm_columns: modules.kernel("norm_columns", 0, LaunchOrder::Between)?,
            layer_inputs: modules.kernel("layer_inputs", 0, LaunchOrder::Between)?,
            gate: modules.kernel(&format!("gate_{name}"), 0, LaunchOrder::Between)?,
            softcap: modules.kernel("softcap", 0, LaunchOrder::Between)?,
            show: modules.kernel("show", 0, LaunchOrder::Between)?,
            keep_hidden: modules.kernel("keep_hidden", 0, LaunchOrder::Between)?,
            join_hidden: modules.kernel("join_hidden", 0, LaunchOrder::Between)?,
            encode: tower
                .then(|| EncodeKernels::load(modules, activation))
                .transpose()?,
            recurrent: state
                .map(|state| RecurrentKernels::load(modules, activation, state))
                .transpose()?,
            cache: CacheKernels::of_kinds(modules, activation, kv)?,
            step: storages
                .iter()
                .map(|of| step(*of))
                .collect::<Result<_, _>>()?,
            mixed: pairs
                .into_iter()
                .filter(both)
                .map(mixed)
                .collect::<Result<_, _>>()?,
            prompt: storages
                .iter()
                .map(|of| product(*of))
                .collect::<Result<_, _>>()?,
        })
    }

    /// The products of a step.
    pub(super) fn step(&self, of: Storage) -> Option<&StepKernels> {
        self.step.get(&of)
    }

    /// The products of a step with weights of two storage forms, if one kernel has both.
    pub(super) fn mixed(&self, first: Storage, second: Storage) -> Option<&MixedKernels> {
        self.mixed.get(&(first, second))
    }

    /// The product of a prompt in a shape.
    pub(super) fn prompt(&self, of: Storage, shape: usize) -> Option<&Kernel<PromptArgs>> {
        self.prompt.get(&of)?.get(shape)?.as_ref()
    }
}
