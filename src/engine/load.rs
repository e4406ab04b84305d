//! From a checked checkpoint to an executor that holds its weights.

use super::runner::{Backend, Settings};
use crate::model::forward::Forward;
use crate::model::{Checkpoint, ModelError, Tensor};
use crate::tape::cpu::{Cpu, Matrix, Weight};
use crate::tape::{DType, KvInfo, TapeError, WeightId, WeightInfo};

/// Why a model could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error("{0}")]
    Language(#[from] crate::model::language::LanguageError),
    #[error("the model does not fit its tape: {0}")]
    Tape(#[from] TapeError),
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

/// Loads a model for the executor that `settings` choose.
pub(super) fn load(
    checkpoint: &Checkpoint,
    settings: &Settings,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Forward, Cpu), LoadError> {
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
        dtype: settings.kv_type,
    };
    let total = checkpoint.weight_bytes();
    admit(total, kv, available_memory())?;

    let mut infos = Vec::new();
    let mut weights = Vec::new();
    let mut done = 0;
    let ids = checkpoint.tensors.try_map(|tensor| {
        weights.push(read(checkpoint, tensor)?);
        infos.push(info(tensor));
        done += tensor.bytes() as u64;
        progress(done, total);
        Ok::<_, ModelError>(WeightId(infos.len() - 1))
    })?;
    let executor = match settings.backend {
        Backend::Auto | Backend::Cpu => Cpu::new(
            weights,
            shape.rope_frequencies.clone(),
            kv,
            settings.threads,
        )?,
    };
    Ok((
        Forward {
            shape,
            weights: ids,
            infos: infos.into(),
            activation: DType::F32,
            kv,
        },
        executor,
    ))
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
    let per_position = kv.bytes_per_position() as u64;
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
