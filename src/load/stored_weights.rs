//! Reads the weights of a checkpoint, and of its assistant's, by the ids that a tape gives them.

use std::ops::Range;

use parking_lot::{Mutex, MutexGuard};

use super::error::LoadError;
use crate::executor::WeightSource;
use crate::model::checkpoint::ReadBuffer;
use crate::model::{Checkpoint, Tensor};

/// A tensor, and the checkpoint that has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredTensor<'a> {
    pub(crate) checkpoint: &'a Checkpoint,
    pub(crate) tensor: &'a Tensor,
    /// The number of files of other checkpoints that are read with it.
    pub(crate) other_files: usize,
}

/// Tensors in the order of their weight ids.
pub(crate) struct StoredWeights<'a> {
    tensors: Vec<StoredTensor<'a>>,
    /// Buffers that no thread uses at the moment.
    buffers: Mutex<Vec<ReadBuffer>>,
}

impl<'a> StoredWeights<'a> {
    pub(crate) fn new(tensors: Vec<StoredTensor<'a>>) -> Self {
        Self {
            tensors,
            buffers: Mutex::default(),
        }
    }

    fn buffers(&self) -> MutexGuard<'_, Vec<ReadBuffer>> {
        self.buffers.lock()
    }
}

impl WeightSource for StoredWeights<'_> {
    type Error = LoadError;

    fn read(
        &self,
        weight: usize,
        rows: Range<usize>,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), LoadError> {
        let StoredTensor {
            checkpoint, tensor, ..
        } = self.tensors[weight];
        let mut buffer = self.buffers().pop().unwrap_or_default();
        if tensor.rows == 1 {
            let values = checkpoint.vector(tensor, &mut buffer)?;
            let bytes: Vec<u8> = values.into_iter().flat_map(f32::to_le_bytes).collect();
            take(&bytes);
        } else {
            take(checkpoint.rows(tensor, rows, &mut buffer)?);
        }
        self.buffers().push(buffer);
        Ok(())
    }

    fn place(&self, weight: usize, row: usize) -> (usize, u64) {
        let StoredTensor {
            tensor,
            other_files,
            ..
        } = self.tensors[weight];
        let offset = tensor.offset + (row * tensor.row_bytes()) as u64;
        (other_files + tensor.file, offset)
    }
}
