//! Loads a vision tower into an executor, and states the memory that it needs before.

use std::ops::Range;
use std::sync::OnceLock;

use parking_lot::Mutex;

use super::error::LoadError;
#[cfg(feature = "cuda")]
use super::loader::unusable;
use super::settings::{Backend, Settings};
use crate::cpu::{self, Cpu};
#[cfg(feature = "cuda")]
use crate::cuda::{self, Cuda};
use crate::executor::{MemoryEstimate, WeightSource};
use crate::graph::{GraphOptions, Mode};
use crate::model::checkpoint::{ReadBuffer, TowerTensor};
use crate::model::tower::TowerForward;
use crate::model::{ModelError, TowerCheckpoint};
use crate::quant::DType;
use crate::runner::Tower;
use crate::tape::{KvInfo, WeightId, WeightInfo};

/// Rows of text of a tower's executor, which has none.
#[cfg(feature = "cuda")]
const TOWER_ROWS: usize = 1;

/// Returns the memory that a tower needs on the CPU for images of up to `patches` patches; `Settings::threads` counts.
/// The weights include the position embeddings, which are f32.
#[must_use]
pub fn tower_memory(
    checkpoint: &TowerCheckpoint,
    settings: &Settings,
    patches: usize,
) -> MemoryEstimate {
    let (forward, _) = plan(checkpoint);
    let (widest, _) = forward.tape(forward.shape.widest(patches));
    let estimate = cpu::memory_estimate(&[&widest], settings.threads);
    MemoryEstimate {
        weights: estimate.weights + checkpoint.position_bytes(patches),
        ..estimate
    }
}

/// Returns the memory that a tower needs on a GPU, as `tower_memory` does on the CPU. With `integrated` the GPU shares the
/// memory of the CPU.
///
/// # Errors
/// If a buffer exceeds the largest allocation.
#[cfg(feature = "cuda")]
pub fn tower_memory_on_cuda(
    checkpoint: &TowerCheckpoint,
    settings: &Settings,
    patches: usize,
    integrated: bool,
) -> Result<MemoryEstimate, LoadError> {
    let (mut forward, _) = plan(checkpoint);
    forward.activation = settings.cuda.activations;
    let (widest, _) = forward.tape(forward.shape.widest(patches));
    Ok(cuda::memory_estimate(&[&widest], TOWER_ROWS, integrated)?)
}

/// Loads a tower for images of up to `patches` patches. `progress` is called with the bytes read so far and in all.
///
/// With `Backend::Auto` a GPU runs it, unless no GPU of this machine can.
///
/// # Errors
/// If the files cannot be read, the tower does not fit its tape or the memory, or the backend does not run towers.
pub fn tower(
    checkpoint: &TowerCheckpoint,
    settings: &Settings,
    patches: usize,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Tower, LoadError> {
    match settings.backend {
        Backend::Cpu => on_cpu(checkpoint, settings, patches, progress),
        #[cfg(feature = "cuda")]
        Backend::Cuda => on_cuda(checkpoint, settings, patches, progress),
        #[cfg(not(feature = "cuda"))]
        Backend::Cuda => Err(LoadError::NoCuda),
        #[cfg(feature = "cuda")]
        Backend::Auto => match on_cuda(checkpoint, settings, patches, progress) {
            Err(error) => {
                unusable(error)?;
                on_cpu(checkpoint, settings, patches, progress)
            }
            loaded => loaded,
        },
        #[cfg(not(feature = "cuda"))]
        Backend::Auto => on_cpu(checkpoint, settings, patches, progress),
    }
}

fn on_cpu(
    checkpoint: &TowerCheckpoint,
    settings: &Settings,
    patches: usize,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Tower, LoadError> {
    let (forward, tensors) = plan(checkpoint);
    let source = TowerSource::new(checkpoint, tensors);
    let (mut done, all) = (0, checkpoint.weight_bytes());
    let weights = cpu::load(&forward.infos, &source, &mut |bytes| {
        done += bytes as u64;
        progress(done, all);
    })?;
    let cpu = Cpu::new(
        weights,
        Vec::new(),
        KvInfo::none(),
        settings.threads,
        &eager(),
    )?;
    let weight_bytes = tower_memory(checkpoint, settings, patches).weights;
    let positions = checkpoint.positions(patches, &mut ReadBuffer::default())?;
    let tower = Tower::new(forward, Box::new(cpu), positions, (patches, weight_bytes));
    Ok(tower?)
}

#[cfg(feature = "cuda")]
fn on_cuda(
    checkpoint: &TowerCheckpoint,
    settings: &Settings,
    patches: usize,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Tower, LoadError> {
    let (mut forward, tensors) = plan(checkpoint);
    forward.activation = settings.cuda.activations;
    let (widest, _) = forward.tape(forward.shape.widest(patches));
    cuda::suits(&widest)?;
    let device =
        cuda::Device::open_part(settings.cuda.emulate_tegra, settings.cuda.multiprocessors)?;
    let memory = tower_memory_on_cuda(checkpoint, settings, patches, device.is_integrated())?;
    let options = cuda::Options {
        places: cuda::Places {
            weights: settings.cuda.weights.kind(),
            kv: None,
        },
        rows: TOWER_ROWS,
        activation: forward.activation,
        state: None,
        tower: true,
        graph: eager(),
        spin: settings.cuda.spin,
    };
    let source = TowerSource::new(checkpoint, tensors);
    let (mut done, all) = (0, checkpoint.weight_bytes());
    let mut read = |bytes| {
        done += bytes as u64;
        progress(done, all);
    };
    let cuda = Cuda::new(
        device,
        &forward.infos,
        &[],
        KvInfo::none(),
        options,
        (&source, &mut read),
    )?;
    let weight_bytes = memory.weights + checkpoint.position_bytes(patches);
    let positions = checkpoint.positions(patches, &mut ReadBuffer::default())?;
    let tower = Tower::new(forward, Box::new(cuda), positions, (patches, weight_bytes));
    Ok(tower?)
}

/// A tower's tapes are never recorded, because the sizes of images vary.
fn eager() -> GraphOptions {
    GraphOptions {
        mode: Mode::None,
        ..GraphOptions::default()
    }
}

/// Returns the forward pass of images, and the tensors in the order of their weight ids.
fn plan(checkpoint: &TowerCheckpoint) -> (TowerForward, Vec<&TowerTensor>) {
    let mut tensors = Vec::new();
    let weights = checkpoint.tensors.try_map(|tensor| {
        tensors.push(tensor);
        Ok::<_, std::convert::Infallible>(WeightId(tensors.len() - 1))
    });
    let Ok(weights) = weights;
    let infos = tensors.iter().map(|tensor| {
        let of = &tensor.tensor;
        WeightInfo {
            name: of.name.clone(),
            rows: of.rows,
            columns: of.columns,
            format: of.format,
        }
    });
    let forward = TowerForward {
        shape: checkpoint.shape.clone(),
        weights,
        infos: infos.collect(),
        activation: DType::F32,
    };
    (forward, tensors)
}

/// The tensors of a tower, in the order of their weight ids.
struct TowerSource<'a> {
    checkpoint: &'a TowerCheckpoint,
    tensors: Vec<&'a TowerTensor>,
    /// The whole of each tensor whose elements have another order in the file.
    arranged: Vec<OnceLock<Option<Vec<u8>>>>,
    /// Buffers that no thread uses at the moment.
    buffers: Mutex<Vec<ReadBuffer>>,
}

impl<'a> TowerSource<'a> {
    fn new(checkpoint: &'a TowerCheckpoint, tensors: Vec<&'a TowerTensor>) -> Self {
        Self {
            checkpoint,
            arranged: tensors.iter().map(|_| OnceLock::new()).collect(),
            tensors,
            buffers: Mutex::default(),
        }
    }

    /// Returns a rearranged tensor; `None` if it is stored as it is. Two threads may both compute it.
    fn arranged(
        &self,
        weight: usize,
        buffer: &mut ReadBuffer,
    ) -> Result<Option<&[u8]>, ModelError> {
        let cell = &self.arranged[weight];
        if cell.get().is_none() {
            let arranged = self.checkpoint.arranged(self.tensors[weight], buffer)?;
            // Another thread may have set it to the same bytes.
            let _ = cell.set(arranged);
        }
        Ok(cell.get().and_then(Option::as_deref))
    }
}

impl WeightSource for TowerSource<'_> {
    type Error = LoadError;

    fn read(
        &self,
        weight: usize,
        rows: Range<usize>,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), LoadError> {
        let mut buffer = self.buffers.lock().pop().unwrap_or_default();
        let tensor = &self.tensors[weight].tensor;
        if tensor.rows == 1 {
            let values = self.checkpoint.vector(tensor, &mut buffer)?;
            let bytes: Vec<u8> = values.into_iter().flat_map(f32::to_le_bytes).collect();
            take(&bytes);
        } else if let Some(bytes) = self.arranged(weight, &mut buffer)? {
            let row_bytes = tensor.row_bytes();
            take(&bytes[rows.start * row_bytes..rows.end * row_bytes]);
        } else {
            take(self.checkpoint.rows(tensor, rows, &mut buffer)?);
        }
        self.buffers.lock().push(buffer);
        Ok(())
    }

    fn place(&self, weight: usize, row: usize) -> (usize, u64) {
        let tensor = &self.tensors[weight].tensor;
        let offset = tensor.offset + (row * tensor.row_bytes()) as u64;
        (tensor.file, offset)
    }
}
