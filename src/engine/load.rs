//! This leads from a checked checkpoint to an executor that holds its weights.

#[cfg(feature = "cuda")]
use super::admission::Pool;
use super::admission::{Admitted, Budget, greatest};
use super::chunk;
use super::kv_memory::KvMemory;
use super::kv_selection::{KvPlan, KvSelection};
use super::load_error::LoadError;
#[cfg(feature = "cuda")]
use super::settings::Placement;
use super::settings::{Backend, Settings};
use super::stored::Stored;
use crate::cpu::{self, Cpu};
#[cfg(feature = "cuda")]
use crate::cuda::{self, Cuda};
use crate::executor::{Executor, MemoryEstimate};
use crate::model::forward::Forward;
use crate::model::{Checkpoint, Tensor};
use crate::quant::DType;
use crate::tape::{Ending, Input, KvInfo, STEP_ROWS, Tape, WeightId, WeightInfo};

/// Conversations that may be at hand for each row of a step: as many as answer may rest meanwhile.
const ENTRIES_A_ROW: usize = 2;

/// A model on its executor.
pub(super) struct Loaded {
    pub(super) forward: Forward,
    pub(super) executor: Box<dyn Executor>,
    /// Rows of a prompt that run at once.
    pub(super) prefill_chunk: usize,
    /// Which device, or why it is not another.
    pub(super) description: String,
    /// Whether the cache lies in the system's memory, rather than in a GPU's own.
    pub(super) uses_system_memory: bool,
    pub(super) selection: KvSelection,
}

/// Loads a model for the executor that `settings` choose.
pub(super) fn load(
    checkpoint: &Checkpoint,
    settings: &Settings,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Loaded, LoadError> {
    let (forward, tensors) = plan(checkpoint, settings)?;
    let (mut done, all) = (0, checkpoint.weight_bytes());
    let mut loader = Loader {
        source: Stored::new(checkpoint, tensors),
        kv: KvPlan::of_settings(checkpoint, settings),
        read: &mut |bytes| {
            done += bytes as u64;
            progress(done, all);
        },
    };
    loader.load(forward, settings)
}

/// What will be computed, and the weights in the order of their ids.
pub(super) fn plan<'a>(
    checkpoint: &'a Checkpoint,
    settings: &Settings,
) -> Result<(Forward, Vec<&'a Tensor>), LoadError> {
    let shape = checkpoint.shape.clone();
    let context = match settings.context {
        0 => shape.context,
        context if settings.shortens => context.min(shape.context),
        context => context,
    };
    if context > shape.context {
        return Err(LoadError::Context {
            asked: context,
            trained: shape.context,
        });
    }
    settings.kv_type.check()?;
    let (types, head_dim) = (
        KvPlan::of_settings(checkpoint, settings).types,
        shape.head_dim,
    );
    if !head_dim.is_multiple_of(types.granule()) {
        return Err(LoadError::KvType {
            name: types.name(),
            granule: types.granule(),
            head_dim,
        });
    }
    let kv = KvInfo {
        layers: shape.layers,
        heads: shape.kv_heads,
        head_dim,
        context,
        slots: ENTRIES_A_ROW * settings.rows.clamp(1, STEP_ROWS),
        pages: 0,
        chunk: 1,
        types,
    };
    let chunk = (settings.kv_chunk / kv.page_bytes()).max(1);
    let kv = settings.kv_memory.of(KvInfo { chunk, ..kv })?;
    let mut tensors = Vec::new();
    let weights = checkpoint.tensors.try_map(|tensor| {
        tensors.push(tensor);
        Ok::<_, LoadError>(WeightId(tensors.len() - 1))
    })?;
    let forward = Forward {
        shape,
        weights,
        infos: tensors.iter().map(|tensor| info(tensor)).collect(),
        activation: DType::F32,
        kv,
    };
    Ok((forward, tensors))
}

/// What `Runner::load` prepares of a model: the largest prompt, and the largest step.
fn tapes(forward: &Forward, settings: &Settings) -> [Tape; 2] {
    let rows = settings.rows.clamp(1, STEP_ROWS);
    [
        forward.tape(settings.prefill_chunk, Input::Prompt, Ending::Token),
        forward.tape(rows.next_power_of_two(), Input::Step, Ending::Token),
    ]
}

/// The same with another cache.
fn with_kv(forward: &Forward, kv: KvInfo) -> Forward {
    Forward {
        kv,
        ..forward.clone()
    }
}

/// Holds a model against `budget`, and settles how many pages its cache has where room decides. `estimate` tells what two
/// tapes take, or nothing where a buffer would be too large.
fn admit(
    budget: &Budget,
    forward: &mut Forward,
    settings: &Settings,
    estimate: impl Fn(&[&Tape]) -> Option<MemoryEstimate>,
) -> Result<Admitted, LoadError> {
    let takes = |kv: KvInfo| {
        let [prompt, step] = tapes(&with_kv(forward, kv), settings);
        estimate(&[&prompt, &step])
    };
    let full = forward.kv;
    let choices = settings.kv_memory.choices(full);
    let kv = choices.map_or(full, |choices| {
        let fits = |pages| {
            let fewer = takes(KvInfo { pages, ..full });
            fewer.is_some_and(|estimate| budget.holds(estimate.bytes()))
        };
        let pages = greatest(choices.end() + 1, fits).max(*choices.start());
        KvInfo { pages, ..full }
    });
    let of_context = |context| {
        let each = KvInfo { context, ..kv }.pages_each();
        let pages = match settings.kv_memory {
            KvMemory::Mebibytes(_) => kv.pages,
            KvMemory::Auto => each.min(kv.pages),
            KvMemory::Conversations(count) => count.max(1) * each,
        };
        let pages = if context == kv.context {
            kv.pages
        } else {
            pages
        };
        takes(KvInfo {
            context,
            pages,
            ..kv
        })
    };
    let admitted = budget.admit(kv.context, of_context)?;
    forward.kv = kv;
    Ok(admitted)
}

/// Brings weights to an executor.
struct Loader<'a> {
    source: Stored<'a>,
    kv: KvPlan,
    /// Hears of bytes that have been read.
    read: &'a mut dyn FnMut(usize),
}

impl Loader<'_> {
    fn load(&mut self, forward: Forward, settings: &Settings) -> Result<Loaded, LoadError> {
        match settings.backend {
            Backend::Cpu => self.cpu(forward, settings, "as the configuration says".into()),
            #[cfg(feature = "cuda")]
            Backend::Cuda => self.cuda(forward, settings),
            #[cfg(not(feature = "cuda"))]
            Backend::Cuda => Err(LoadError::NoCuda),
            #[cfg(feature = "cuda")]
            Backend::Auto => match self.cuda(forward.clone(), settings) {
                Err(error) => {
                    let reason = unusable(error)?;
                    self.cpu(forward, settings, format!("not cuda: {reason}"))
                }
                loaded => loaded,
            },
            #[cfg(not(feature = "cuda"))]
            Backend::Auto => self.cpu(forward, settings, "not cuda: this build has none".into()),
        }
    }

    fn cpu(
        &mut self,
        mut forward: Forward,
        settings: &Settings,
        description: String,
    ) -> Result<Loaded, LoadError> {
        let settings = &chunk::settled(settings, chunk::CPU);
        admit_on_cpu(&mut forward, settings)?;
        let weights = cpu::load(&forward.infos, &self.source, self.read)?;
        let mut cpu = Cpu::new(
            weights,
            forward.shape.angles.clone(),
            self.kv.first_cache(forward.kv, settings),
            settings.threads,
            &settings.graph,
        )?
        .launching_ahead(settings.launch_ahead);
        let recache = |cpu: &mut Cpu, kv| {
            cpu.replace_cache(kv, &settings.graph);
            Ok(())
        };
        let mut alive = || (self.read)(0);
        let selection = (self.kv).settle(&mut forward, settings, &mut cpu, recache, &mut alive)?;
        Ok(Loaded {
            forward,
            executor: Box::new(cpu),
            prefill_chunk: settings.prefill_chunk,
            description,
            uses_system_memory: true,
            selection,
        })
    }

    #[cfg(feature = "cuda")]
    fn cuda(&mut self, mut forward: Forward, settings: &Settings) -> Result<Loaded, LoadError> {
        forward.activation = settings.cuda.activations;
        let device =
            cuda::Device::open_part(settings.cuda.emulate_tegra, settings.cuda.multiprocessors)?;
        let properties = device.properties();
        let chunk = chunk::of_gpu(properties.memory, properties.integrated);
        let settings = &chunk::settled(settings, chunk);
        let own = if device.is_integrated() {
            None
        } else {
            Some(device.free_memory()?)
        };
        admit_on_cuda(own, &mut forward, settings)?;
        let place = |placement| match placement {
            Placement::Auto => None,
            Placement::Device => Some(cuda::MemoryKind::Device),
            Placement::Unified => Some(cuda::MemoryKind::Unified),
        };
        let options = cuda::Options {
            places: cuda::Places {
                weights: place(settings.cuda.weights),
                kv: place(settings.cuda.kv),
            },
            rows: settings.prefill_chunk,
            activation: forward.activation,
            graph: settings.graph.clone(),
            spin: settings.cuda.spin,
        };
        let angles = forward.shape.angles.clone();
        let mut cuda = Cuda::new(
            device,
            &forward.infos,
            &angles,
            self.kv.first_cache(forward.kv, settings),
            options,
            (&self.source, &mut *self.read),
        )?;
        let recache = |cuda: &mut Cuda, kv| Ok(cuda.replace_cache(kv, &angles)?);
        let mut alive = || (self.read)(0);
        let selection = (self.kv).settle(&mut forward, settings, &mut cuda, recache, &mut alive)?;
        let description = cuda.describe();
        Ok(Loaded {
            forward,
            executor: Box::new(cuda),
            prefill_chunk: settings.prefill_chunk,
            description,
            uses_system_memory: own.is_none(),
            selection,
        })
    }
}

/// Holds a model against the system's memory; tells what it takes of it.
pub(super) fn admit_on_cpu(
    forward: &mut Forward,
    settings: &Settings,
) -> Result<Admitted, LoadError> {
    let budget = Budget::of_system(settings)?;
    admit(&budget, forward, settings, |tapes| {
        Some(cpu::memory_estimate(tapes, settings.threads))
    })
}

/// Holds a model against the memory that its GPU uses: `own` bytes of a discrete one that are free, else the
/// system's, whatever the driver says is free, for that counts the page cache as used.
#[cfg(feature = "cuda")]
pub(super) fn admit_on_cuda(
    own: Option<u64>,
    forward: &mut Forward,
    settings: &Settings,
) -> Result<Admitted, LoadError> {
    for tape in &tapes(forward, settings) {
        cuda::suits(tape)?;
    }
    let system = || Budget::of_system(settings);
    let budget = match own {
        None => system()?,
        Some(have) => Budget {
            have,
            reserve: settings.reserve,
            pool: Pool::Device,
        },
    };
    let admitted = admit(&budget, forward, settings, |tapes| {
        cuda::memory_estimate(tapes, settings.prefill_chunk, own.is_none()).ok()
    })?;
    if own.is_some() && settings.cuda.weights == Placement::Unified {
        system()?.admit_passage(admitted.estimate.weights)?;
    }
    Ok(admitted)
}

/// Why no device here can run the model at all: only then may another backend take its place unasked. One
/// that lacks memory must not make the robot ten times slower in silence.
#[cfg(feature = "cuda")]
fn unusable(error: LoadError) -> Result<String, LoadError> {
    use cuda::Error;
    match error {
        // There it lacks its GPU for a moment, or for a reason that somebody must see.
        error if error.may_pass() && cuda::is_jetson() => Err(error),
        LoadError::Unsuited(unsuited) => Ok(unsuited.to_string()),
        // A machine without a GPU lacks nothing, and this is told at each of its starts.
        LoadError::Device(Error::NoDriver) => Ok("there is no NVIDIA driver here".into()),
        LoadError::Device(
            error @ (Error::OldDriver { .. }
            | Error::NoDevice
            | Error::Permission { .. }
            | Error::NoImage { .. }
            | Error::NoKernels),
        ) => Ok(error.to_string()),
        other => Err(other),
    }
}

fn info(tensor: &Tensor) -> WeightInfo {
    let Tensor {
        name,
        rows,
        columns,
        format,
        ..
    } = tensor;
    WeightInfo {
        name: name.clone(),
        rows: *rows,
        columns: *columns,
        format: *format,
    }
}
