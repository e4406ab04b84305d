//! From a checked checkpoint to an executor that holds its weights.

#[cfg(feature = "cuda")]
use super::runner::Placement;
use super::runner::{Backend, RunError, Settings};
use crate::model::forward::Forward;
use crate::model::{Checkpoint, ModelError, Shape, Tensor};
use crate::tape::cpu::{Cpu, Matrix, Weight};
#[cfg(feature = "cuda")]
use crate::tape::cuda::{self, Cuda};
use crate::tape::{DType, Executor, KvInfo, TapeError, WeightId, WeightInfo};

/// Why a model could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error("{0}")]
    Language(#[from] crate::model::language::LanguageError),
    #[error("the model does not fit its tape: {0}")]
    Tape(#[from] TapeError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[cfg(feature = "cuda")]
    #[error("backend cuda: {0}")]
    Device(#[from] cuda::Error),
    #[cfg(not(feature = "cuda"))]
    #[error(
        "backend cuda: this build has none; use backend = \"cpu\", or a build with the feature cuda"
    )]
    NoCuda,
    #[error("the threads cannot be started: {0}; lower cpu.threads")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    #[error(
        "kv.context = {asked} is more than the {trained} positions that the model was trained for; lower it, or set it to 0"
    )]
    Context { asked: usize, trained: usize },
    #[error(
        "the model needs {need} MiB (weights {weights}, KV {kv}, reserve {reserve}) and {have} MiB are available; \
         the largest kv.context that fits is {largest}"
    )]
    Memory {
        need: u64,
        weights: u64,
        kv: u64,
        reserve: u64,
        have: u64,
        largest: u64,
    },
}

/// Rows of a matrix that are read at a time, at most this many bytes.
const READ_BYTES: usize = 8 << 20;
/// Left to the rest of the system, and to activations.
const RESERVE_BYTES: u64 = 128 << 20;

/// A model on its executor.
pub(super) struct Loaded {
    pub(super) forward: Forward,
    pub(super) executor: Executor,
    /// Which device, or why it is not another.
    pub(super) description: String,
}

/// Loads a model for the executor that `settings` choose.
pub(super) fn load(
    checkpoint: &Checkpoint,
    settings: &Settings,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Loaded, LoadError> {
    let shape = checkpoint.shape.clone();
    let context = if settings.context == 0 {
        shape.context
    } else {
        settings.context
    };
    if context > shape.context {
        return Err(LoadError::Context {
            asked: context,
            trained: shape.context,
        });
    }
    let kv = KvInfo {
        layers: shape.layers,
        heads: shape.kv_heads,
        head_dim: shape.head_dim,
        context,
        slots: settings.slots.max(1),
        dtype: settings.kv_type,
    };
    let mut tensors = Vec::new();
    let weights = checkpoint.tensors.try_map(|tensor| {
        tensors.push(tensor);
        Ok::<_, LoadError>(WeightId(tensors.len() - 1))
    })?;
    let mut source = Source {
        checkpoint,
        tensors,
        done: 0,
        progress,
    };
    let (executor, description) = source.executor(&shape, settings, kv)?;
    let activation = match executor {
        Executor::Cpu(_) => DType::F32,
        #[cfg(feature = "cuda")]
        Executor::Cuda(_) => settings.cuda.activations,
    };
    let infos = source.infos().into();
    let forward = Forward {
        shape,
        weights,
        infos,
        activation,
        kv,
    };
    Ok(Loaded {
        forward,
        executor,
        description,
    })
}

/// The weights of a checkpoint, in the order of their ids.
struct Source<'a> {
    checkpoint: &'a Checkpoint,
    tensors: Vec<&'a Tensor>,
    /// Bytes read.
    done: u64,
    progress: &'a mut dyn FnMut(u64, u64),
}

impl Source<'_> {
    fn infos(&self) -> Vec<WeightInfo> {
        self.tensors.iter().map(|tensor| info(tensor)).collect()
    }

    /// The executor, and what there is to say about the choice.
    fn executor(
        &mut self,
        shape: &Shape,
        settings: &Settings,
        kv: KvInfo,
    ) -> Result<(Executor, String), LoadError> {
        let reason = match settings.backend {
            Backend::Cpu => "as the configuration says".to_owned(),
            #[cfg(feature = "cuda")]
            Backend::Cuda => return self.cuda(shape, settings, kv),
            #[cfg(not(feature = "cuda"))]
            Backend::Cuda => return Err(LoadError::NoCuda),
            #[cfg(feature = "cuda")]
            Backend::Auto => match self.cuda(shape, settings, kv) {
                Err(LoadError::Device(error)) if is_absent(&error) => format!("not cuda: {error}"),
                other => return other,
            },
            #[cfg(not(feature = "cuda"))]
            Backend::Auto => "not cuda: this build has none".to_owned(),
        };
        let total = self.checkpoint.weight_bytes();
        admit(total, kv, available_memory())?;
        let weights = (0..self.tensors.len())
            .map(|id| self.weight(id))
            .collect::<Result<_, _>>()?;
        let cpu = Cpu::new(
            weights,
            shape.rope_frequencies.clone(),
            kv,
            settings.threads,
            &settings.graph,
        )?;
        Ok((Executor::Cpu(Box::new(cpu)), reason))
    }

    #[cfg(feature = "cuda")]
    fn cuda(
        &mut self,
        shape: &Shape,
        settings: &Settings,
        kv: KvInfo,
    ) -> Result<(Executor, String), LoadError> {
        let place = |placement| match placement {
            Placement::Auto => None,
            Placement::Device => Some(cuda::Memory::Device),
            Placement::Unified => Some(cuda::Memory::Unified),
        };
        let options = cuda::Options {
            places: cuda::Places {
                weights: place(settings.cuda.weights),
                kv: place(settings.cuda.kv),
            },
            rows: settings.prefill_chunk,
            graph: settings.graph.clone(),
            spin: settings.cuda.spin,
            emulate_tegra: settings.cuda.emulate_tegra,
        };
        let infos = self.infos();
        let cuda = Cuda::new(
            &infos,
            &shape.rope_frequencies,
            kv,
            options,
            &mut |id, rows, out| {
                let tensor = self.tensors[id];
                if tensor.rows == 1 {
                    let values = self.checkpoint.read_vector(tensor)?;
                    let bytes = values.iter().flat_map(|value| value.to_le_bytes());
                    out.iter_mut()
                        .zip(bytes)
                        .for_each(|(out, byte)| *out = byte);
                } else {
                    self.checkpoint.read_rows(tensor, rows, out)?;
                }
                self.advance(out.len());
                Ok::<_, LoadError>(())
            },
        )?;
        let description = cuda.describe();
        Ok((Executor::Cuda(Box::new(cuda)), description))
    }

    fn weight(&mut self, id: usize) -> Result<Weight, ModelError> {
        let tensor = self.tensors[id];
        let weight = read(self.checkpoint, tensor)?;
        self.advance(tensor.bytes());
        Ok(weight)
    }

    fn advance(&mut self, bytes: usize) {
        self.done += bytes as u64;
        (self.progress)(self.done, self.checkpoint.weight_bytes());
    }
}

/// Whether there simply is no such device here: only then may another backend take its place unasked.
#[cfg(feature = "cuda")]
fn is_absent(error: &cuda::Error) -> bool {
    use cuda::Error;
    matches!(
        error,
        Error::NoDriver
            | Error::OldDriver { .. }
            | Error::NoDevice
            | Error::Permission { .. }
            | Error::NoImage { .. }
    )
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

fn read(checkpoint: &Checkpoint, tensor: &Tensor) -> Result<Weight, ModelError> {
    if tensor.rows == 1 {
        return Ok(Weight::Vector(checkpoint.read_vector(tensor)?));
    }
    let row_bytes = tensor.row_bytes();
    let mut bytes = vec![0; tensor.bytes()];
    let rows_at_once = (READ_BYTES / row_bytes).max(1);
    for (index, out) in bytes.chunks_mut(rows_at_once * row_bytes).enumerate() {
        let first = index * rows_at_once;
        checkpoint.read_rows(tensor, first..first + out.len() / row_bytes, out)?;
    }
    Ok(Weight::Matrix(Matrix::new(
        tensor.format,
        tensor.columns,
        bytes,
    )))
}

/// Refuses a model that would not fit, before anything is allocated: better here than by the kernel.
fn admit(weights: u64, kv: KvInfo, have: Option<u64>) -> Result<(), LoadError> {
    let Some(have) = have else { return Ok(()) };
    let per_position = (kv.bytes_per_position() * kv.slots) as u64;
    let kv_bytes = per_position * kv.context as u64;
    let need = weights + kv_bytes + RESERVE_BYTES;
    if need <= have {
        return Ok(());
    }
    let largest = have.saturating_sub(weights + RESERVE_BYTES) / per_position;
    let [need, weights, kv, reserve, have] =
        [need, weights, kv_bytes, RESERVE_BYTES, have].map(|bytes| bytes >> 20);
    Err(LoadError::Memory {
        need,
        weights,
        kv,
        reserve,
        have,
        largest,
    })
}

/// `MemAvailable` in bytes; `None` where there is no such file.
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}
