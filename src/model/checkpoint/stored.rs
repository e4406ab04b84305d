//! The tensors of a file, in any format.

use std::collections::HashMap;

use crate::model::error::Defect;
use crate::model::weights::{RowOrder, Tensor, Values};
use crate::quant::{Format, USUAL_FILES};

/// A tensor as its file declares it, within the file's length.
#[derive(Debug)]
pub(super) struct Stored {
    /// The dimensions, outermost first: `[rows, columns]`.
    pub(super) dimensions: Vec<usize>,
    /// The format, or the name of an unknown one.
    pub(super) format: Result<Format, String>,
    pub(super) file: usize,
    /// Bytes from the start of the file.
    pub(super) offset: u64,
}

/// Every tensor of a checkpoint by name.
pub(super) type Directory = HashMap<String, Stored>;

impl Stored {
    /// Returns the tensor, if its format is supported. A vector is one row.
    pub(super) fn tensor(&self, name: String) -> Result<Tensor, Defect> {
        let format = match &self.format {
            Ok(format) => *format,
            Err(unknown) => {
                let problem = format!(
                    "is {unknown}, which is not supported: take the model's {USUAL_FILES} file, or its F16 or BF16 weights"
                );
                return Err(Defect::tensor(&name, problem));
            }
        };
        let mut dimensions = self.dimensions.iter().rev().copied();
        Ok(Tensor {
            name,
            columns: dimensions.next().unwrap_or(1),
            rows: dimensions.next().unwrap_or(1),
            format,
            file: self.file,
            offset: self.offset,
            row_order: RowOrder::Plain,
            values: Values::default(),
        })
    }

    /// Checks that a tensor of a known format has whole blocks and ends within its file.
    pub(super) fn check(&self, name: &str, file_len: u64) -> Result<(), Defect> {
        let Ok(format) = self.format else {
            return Ok(());
        };
        let columns = self.dimensions.last().copied().unwrap_or(1);
        let block = format.block_len();
        if !columns.is_multiple_of(block) {
            return Err(Defect::tensor(
                name,
                format!("{columns} columns are not a multiple of {block}, the block of {format:?}"),
            ));
        }
        let end = self
            .dimensions
            .iter()
            .try_fold(1_usize, |product, &dimension| {
                product.checked_mul(dimension)
            })
            .and_then(|elements| (elements / block).checked_mul(format.block_bytes()))
            .and_then(|bytes| u64::try_from(bytes).ok())
            .and_then(|bytes| self.offset.checked_add(bytes));
        if end.is_none_or(|end| end > file_len) {
            return Err(Defect::Malformed(format!(
                "tensor {name} ({:?} of {format:?} at byte {}) does not fit the file of {file_len} bytes",
                self.dimensions, self.offset
            )));
        }
        Ok(())
    }
}
