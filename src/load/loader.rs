//! Loads the weights of a checkpoint into an executor, and makes a runner of it.

use super::admission::Budget;
use super::draft::{DraftModel, DraftPlan, OpenDraft};
use super::error::LoadError;
use super::fit;
use super::kv_selection::KvPlan;
use super::page_cache;
use super::plan::{plan, settle_run};
use super::prefill_chunk;
use super::settings::{Backend, Settings};
use super::stored_weights::StoredWeights;
use crate::cpu::{self, Cpu};
#[cfg(feature = "cuda")]
use crate::cuda::{self, Cuda};
#[cfg(feature = "cuda")]
use crate::executor::Retired;
use crate::model::Checkpoint;
use crate::model::forward::Forward;
use crate::runner::{Model, Options, RetiredRunner, Runner, SystemMemory};
use crate::tape::{Ending, Input, KvInfo};

/// Loads the weights, and prepares the first steps. `progress` is called with the bytes read so far and in all, and after
/// the last byte once for each preparation.
///
/// # Errors
/// If the files cannot be read, or the model does not fit its tape or the memory.
pub fn runner(
    checkpoint: &Checkpoint,
    settings: &Settings,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Runner, LoadError> {
    runner_after(checkpoint, settings, None, progress)
}

/// Loads a runner as `runner` does, on the thread of a retired one, whose recordings the new runner can then continue with
/// `Runner::resume`.
///
/// # Errors
/// As `runner`. The retired runner may then have lost its recordings.
#[cfg_attr(
    not(feature = "cuda"),
    allow(unused_variables, clippy::needless_pass_by_value)
)] // for a GPU's executor
pub fn runner_after(
    checkpoint: &Checkpoint,
    settings: &Settings,
    retired: Option<&mut RetiredRunner>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Runner, LoadError> {
    let loaded = runner_with_draft(checkpoint, settings, None, retired, progress);
    loaded.map(|loaded| loaded.runner)
}

/// A model's runner, and that of its draft model if it has one.
#[derive(Debug)]
pub struct Loaded {
    pub runner: Runner,
    pub draft: Option<Runner>,
}

/// Loads a runner as `runner_after` does, and that of its draft model. Both are admitted to the memory together, run on the same
/// backend, and share the threads of the CPU.
///
/// # Errors
/// As `runner_after`.
#[cfg_attr(
    not(feature = "cuda"),
    allow(unused_variables, clippy::needless_pass_by_value)
)] // for a GPU's executor
pub fn runner_with_draft(
    checkpoint: &Checkpoint,
    settings: &Settings,
    draft: Option<&OpenDraft>,
    retired: Option<&mut RetiredRunner>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Loaded, LoadError> {
    let assistant = draft.and_then(OpenDraft::assistant);
    let (forward, tensors) = plan(checkpoint, assistant, settings)?;
    page_cache::prepare(checkpoint, settings);
    if let Some(assistant) = assistant {
        page_cache::prepare(&assistant.files.checkpoint, settings);
    }
    // More than those of the model, if its head or an assistant is loaded.
    let bytes = tensors.iter().map(|stored| stored.tensor.bytes() as u64);
    let all: u64 = bytes.sum();
    let mut done = 0;
    let mut loader = Loader {
        source: StoredWeights::new(tensors),
        kv: KvPlan::of_settings(checkpoint, settings),
        weight_bytes: all,
        #[cfg(feature = "cuda")]
        retired: retired.map(RetiredRunner::executor_mut),
        draft,
        admitted: None,
        threads: None,
        pages: None,
        read: &mut |bytes| {
            done += bytes as u64;
            progress(done, all);
        },
    };
    let model = loader.load(forward, settings)?;
    let (admitted, threads) = (loader.admitted.take(), loader.threads.take());
    let runner = made(model, settings, &mut || progress(all, all))?;
    let draft = match (draft.and_then(OpenDraft::model), admitted) {
        (Some(draft), Some(admitted)) => {
            let backend = if runner.backend() == "cpu" {
                Backend::Cpu
            } else {
                Backend::Cuda
            };
            let of_draft = load_draft(draft, (&admitted, backend, threads), &mut || {
                progress(all, all);
            });
            Some(of_draft.map_err(|error| LoadError::Draft {
                draft: draft.path.clone(),
                error: Box::new(error),
            })?)
        }
        _ => None,
    };
    Ok(Loaded { runner, draft })
}

/// Loads a draft model that was admitted.
fn load_draft(
    draft: &DraftModel,
    (admitted, backend, threads): (&AdmittedDraft, Backend, Option<cpu::Threads>),
    alive: &mut dyn FnMut(),
) -> Result<Runner, LoadError> {
    let (checkpoint, settings) = (&*draft.checkpoint, &admitted.plan.settings_on(backend));
    let (forward, tensors) = plan(checkpoint, None, settings)?;
    page_cache::prepare(checkpoint, settings);
    let mut loader = Loader {
        source: StoredWeights::new(tensors),
        kv: KvPlan::of_settings(checkpoint, settings),
        weight_bytes: checkpoint.weight_bytes(),
        #[cfg(feature = "cuda")]
        retired: None,
        draft: None,
        admitted: None,
        threads,
        pages: Some(admitted.plan.pages(admitted.model)),
        read: &mut |_| alive(),
    };
    let model = loader.load(forward, settings)?;
    drop(loader);
    made(model, settings, alive)
}

/// Makes a runner of a loaded model.
fn made(
    model: Model,
    settings: &Settings,
    prepared: &mut dyn FnMut(),
) -> Result<Runner, LoadError> {
    model.forward.tape(1, Input::Step, Ending::Token).check()?;
    let budget_of = settings.clone();
    let options = Options {
        reuse: settings.reuse,
        rows: settings.rows,
        graph: settings.graph.clone(),
        release_after: settings.kv_rest,
        system_memory: SystemMemory::new(move |bytes| {
            Budget::of_system(&budget_of).is_ok_and(|budget| budget.holds(bytes))
        }),
        observer: settings.observer.clone(),
    };
    Ok(Runner::new(model, options, prepared)?)
}

/// Loads weights into an executor.
struct Loader<'a> {
    source: StoredWeights<'a>,
    kv: KvPlan,
    weight_bytes: u64,
    /// The executor whose device and recordings the new one takes over.
    #[cfg(feature = "cuda")]
    retired: Option<&'a mut Box<dyn Retired>>,
    /// The draft model that is admitted together with this one, or its assistant.
    draft: Option<&'a OpenDraft>,
    /// Its plan, once both are admitted.
    admitted: Option<AdmittedDraft>,
    /// The threads of the CPU, once an executor has them.
    threads: Option<cpu::Threads>,
    /// The pages of a cache that was admitted before.
    pages: Option<usize>,
    /// Is called with the number of bytes that were read.
    read: &'a mut dyn FnMut(usize),
}

/// The plan of a draft model, and the cache of the model that it was admitted with.
#[derive(Clone, Debug)]
struct AdmittedDraft {
    plan: DraftPlan,
    model: KvInfo,
}

impl Loader<'_> {
    fn load(&mut self, forward: Forward, settings: &Settings) -> Result<Model, LoadError> {
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
    ) -> Result<Model, LoadError> {
        let settings = &prefill_chunk::settled(settings, prefill_chunk::CPU, &forward);
        if let Some(pages) = self.pages {
            settle_run(&mut forward, settings)?;
            forward.kv.pages = pages;
        } else {
            let draft = OpenDraft::planned(self.draft, settings, &forward)?;
            let admitted = fit::admit_on_cpu(&mut forward, settings, draft.as_ref());
            admitted.map_err(|error| self.refused(error))?;
            self.admitted(draft, &forward);
        }
        let weights = cpu::load(&forward.infos, &self.source, self.read)?;
        let threads = match self.threads.take() {
            Some(threads) => threads,
            None => cpu::Threads::new(settings.threads)?,
        };
        let mut cpu = Cpu::on(
            threads,
            weights,
            forward.shape.angles.clone(),
            self.kv.first_cache(forward.kv, settings),
            &settings.graph,
        )
        .launching_ahead(settings.launch_ahead)
        .with_precision(settings.precision);
        self.threads = Some(cpu.threads());
        let recache = |cpu: &mut Cpu, kv| {
            cpu.replace_cache(kv, &settings.graph);
            Ok(())
        };
        let mut alive = || (self.read)(0);
        let kv_selection =
            (self.kv).settle(&mut forward, settings, &mut cpu, recache, &mut alive)?;
        Ok(Model {
            forward,
            executor: Box::new(cpu),
            prefill_chunk: settings.prefill_chunk,
            description,
            uses_system_memory: true,
            kv_selection,
            weight_bytes: self.weight_bytes,
        })
    }

    /// Names the assistant in a refusal of memory.
    fn refused(&self, error: LoadError) -> LoadError {
        match self.draft.and_then(OpenDraft::assistant) {
            Some(assistant) => assistant.named_in(error),
            None => error,
        }
    }

    /// Notes the plan of the draft model, which was admitted with the model.
    fn admitted(&mut self, draft: Option<DraftPlan>, model: &Forward) {
        self.admitted = draft.map(|plan| AdmittedDraft {
            plan,
            model: model.kv,
        });
    }

    #[cfg(feature = "cuda")]
    fn cuda(&mut self, mut forward: Forward, settings: &Settings) -> Result<Model, LoadError> {
        forward.activation = settings.cuda.activations;
        let (emulate, part) = (settings.cuda.emulate_tegra, settings.cuda.multiprocessors);
        let before = self.retired.as_mut();
        let device = match before.and_then(|one| cuda::Device::of_retired(one)) {
            Some(device) => device,
            None => cuda::Device::open_part(emulate, part)?,
        };
        let properties = device.properties();
        let chunk = prefill_chunk::of_gpu(properties.memory, properties.integrated);
        let settings = &prefill_chunk::settled(settings, chunk, &forward);
        let own = if device.is_integrated() {
            None
        } else {
            Some(device.free_memory()?)
        };
        if let Err(error) = self.admit_on_cuda(own, &mut forward, settings) {
            if let Some(retired) = self.retired.as_mut() {
                device.give_back(retired);
            }
            return Err(error);
        }
        let options = cuda::Options {
            places: cuda::Places {
                weights: settings.cuda.weights.kind(),
                kv: settings.cuda.kv.kind(),
            },
            rows: settings.prefill_chunk,
            activation: forward.activation,
            state: forward.state,
            tower: false,
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
        let kv_selection =
            (self.kv).settle(&mut forward, settings, &mut cuda, recache, &mut alive)?;
        let description = cuda.describe();
        Ok(Model {
            forward,
            executor: Box::new(cuda),
            prefill_chunk: settings.prefill_chunk,
            description,
            uses_system_memory: own.is_none(),
            kv_selection,
            weight_bytes: self.weight_bytes,
        })
    }
}

#[cfg(feature = "cuda")]
impl Loader<'_> {
    /// Admits a model, with its draft model, to the memory of a GPU, unless it was admitted before.
    fn admit_on_cuda(
        &mut self,
        own: Option<u64>,
        forward: &mut Forward,
        settings: &Settings,
    ) -> Result<(), LoadError> {
        if let Some(pages) = self.pages {
            settle_run(forward, settings)?;
            forward.kv.pages = pages;
            return Ok(());
        }
        let draft = OpenDraft::planned_on_gpu(self.draft, settings, forward)?;
        let admitted = fit::admit_on_cuda(own, forward, settings, draft.as_ref());
        admitted.map_err(|error| self.refused(error))?;
        self.admitted(draft, forward);
        Ok(())
    }
}

/// Returns why no GPU of this machine can run the model at all: only then is the CPU used instead. If memory is short, the
/// load fails, because a CPU would be much slower.
#[cfg(feature = "cuda")]
pub(super) fn unusable(error: LoadError) -> Result<String, LoadError> {
    use cuda::Error;
    match error {
        // A Jetson has a GPU, so its user must learn why it cannot be used.
        error if error.may_pass() && cuda::is_jetson() => Err(error),
        LoadError::Unsuited(unsuited) => Ok(unsuited.to_string()),
        // This is no defect of a machine without a GPU, and is reported at each start.
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
