//! The weights of a checkpoint as an executor asks for them: by the places that a tape knows them by.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::load_error::LoadError;
use crate::executor::Source;
use crate::model::checkpoint::ReadBuffer;
use crate::model::{Checkpoint, Tensor};

/// Where weights are stored, in the order of their ids.
pub(super) struct Stored<'a> {
    checkpoint: &'a Checkpoint,
    tensors: Vec<&'a Tensor>,
    /// Threads that do not read at the moment have left these.
    buffers: Mutex<Vec<ReadBuffer>>,
}

impl<'a> Stored<'a> {
    pub(super) fn new(checkpoint: &'a Checkpoint, tensors: Vec<&'a Tensor>) -> Self {
        Self {
            checkpoint,
            tensors,
            buffers: Mutex::default(),
        }
    }

    fn buffers(&self) -> MutexGuard<'_, Vec<ReadBuffer>> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Source for Stored<'_> {
    type Error = LoadError;

    fn read(
        &self,
        weight: usize,
        rows: Range<usize>,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), LoadError> {
        let tensor = self.tensors[weight];
        let mut buffer = self.buffers().pop().unwrap_or_default();
        if tensor.rows == 1 {
            let values = self.checkpoint.vector(tensor, &mut buffer)?;
            let bytes: Vec<u8> = values.into_iter().flat_map(f32::to_le_bytes).collect();
            take(&bytes);
        } else {
            take(self.checkpoint.rows(tensor, rows, &mut buffer)?);
        }
        self.buffers().push(buffer);
        Ok(())
    }

    fn place(&self, weight: usize, row: usize) -> (usize, u64) {
        let tensor = self.tensors[weight];
        let offset = tensor.offset + (row * tensor.row_bytes()) as u64;
        (tensor.file, offset)
    }
}
