//! A vision tower with checked files, whose weights are not read yet.

use std::convert::Infallible;
use std::ops::Range;

use super::arranged::{Arrangement, TowerTensor};
use crate::model::checkpoint::files::ModelFile;
use crate::model::checkpoint::read_buffer::ReadBuffer;
use crate::model::error::ModelError;
use crate::model::tower::positions::PositionTable;
use crate::model::tower::shape::{Positions, TowerShape};
use crate::model::tower::weights::TowerWeights;
use crate::model::weights::Tensor;

/// A vision tower with checked files, whose weights are not read yet.
#[derive(Debug)]
pub struct TowerCheckpoint {
    /// The author's name for the model, or the file's or folder's name.
    pub name: String,
    pub shape: TowerShape,
    pub tensors: TowerWeights<TowerTensor>,
    /// The position embeddings, (positions, hidden).
    pub(super) positions: Tensor,
    pub(super) files: Vec<ModelFile>,
}

impl TowerCheckpoint {
    /// Reads `rows` of a tensor in the file's format. Several threads may read at once, each with a buffer of its own.
    ///
    /// # Panics
    /// If `rows` are not of the tensor.
    pub fn rows<'l>(
        &self,
        tensor: &Tensor,
        rows: Range<usize>,
        buffer: &'l mut ReadBuffer,
    ) -> Result<&'l [u8], ModelError> {
        assert!(rows.start <= rows.end && rows.end <= tensor.rows);
        let source = &self.files[tensor.file];
        let read = source.rows(tensor, rows, buffer);
        read.map_err(|defect| defect.at(&source.path))
    }

    /// Reads a vector (a norm's weight or a bias) as f32.
    pub fn vector(&self, tensor: &Tensor, buffer: &mut ReadBuffer) -> Result<Vec<f32>, ModelError> {
        let source = &self.files[tensor.file];
        let read = source.vector(tensor, buffer);
        read.map_err(|defect| defect.at(&source.path))
    }

    /// Reads a whole tensor whose elements have another order in the file, in the format and order of the tower. Returns
    /// `None` for a tensor that is stored as it is.
    pub fn arranged(
        &self,
        tensor: &TowerTensor,
        buffer: &mut ReadBuffer,
    ) -> Result<Option<Vec<u8>>, ModelError> {
        if tensor.arrangement == Arrangement::Stored {
            return Ok(None);
        }
        let sources = tensor.sources().into_iter();
        let stored = sources.map(|stored| {
            let read = self.rows(stored, 0..stored.rows, buffer);
            read.map(<[u8]>::to_vec)
        });
        let stored: Vec<_> = stored.collect::<Result<_, _>>()?;
        Ok(Some(tensor.arrange(&stored)))
    }

    /// Reads the position embeddings of images whose sides have at most `longest` patches.
    pub fn positions(
        &self,
        longest: usize,
        buffer: &mut ReadBuffer,
    ) -> Result<PositionTable, ModelError> {
        let (length, parts) = self.held_positions(longest);
        let mut table = PositionTable {
            values: Vec::new(),
            length,
        };
        let columns = self.positions.columns;
        for part in parts {
            let bytes = self.rows(&self.positions, part.clone(), buffer)?;
            let begin = table.values.len();
            table.values.resize(begin + part.len() * columns, 0.0);
            let values = &mut table.values[begin..];
            self.positions.format.dequantize(bytes, values);
        }
        Ok(table)
    }

    /// The positions of a side that images of at most `longest` patches need, and the rows of the file that hold them.
    fn held_positions(&self, longest: usize) -> (usize, Vec<Range<usize>>) {
        match self.shape.positions {
            Positions::Axes { length } => {
                let held = length.min(longest);
                (held, vec![0..held, length..length + held])
            }
            Positions::Fixed { side }
            | Positions::Stretched { side }
            | Positions::Resized { side } => {
                let all = 0..self.positions.rows;
                (side, vec![all])
            }
        }
    }

    /// Bytes of the position embeddings in the host's memory, as `positions` reads them.
    #[must_use]
    pub fn position_bytes(&self, longest: usize) -> u64 {
        let (_, parts) = self.held_positions(longest);
        let rows: usize = parts.iter().map(ExactSizeIterator::len).sum();
        (4 * rows * self.positions.columns) as u64
    }

    /// Returns the bytes of all weights in the formats of the tower, without the position embeddings.
    #[must_use]
    pub fn weight_bytes(&self) -> u64 {
        let mut bytes = 0;
        let _ = self.tensors.try_map(|tensor| {
            bytes += tensor.tensor.bytes() as u64;
            Ok::<_, Infallible>(())
        });
        bytes
    }
}
