//! A tensor of a file: its place, the order of its rows, and the transformation of its values.

use std::ops::Range;

use crate::model::error::Defect;
use crate::quant::Format;

/// A tensor that was found in a checkpoint and checked, and is not read yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// The file's name for it.
    pub name: String,
    /// The number of rows; 1 for a vector.
    pub rows: usize,
    pub columns: usize,
    pub format: Format,
    /// The index of its file in the checkpoint.
    pub file: usize,
    /// Bytes from the start of that file.
    pub offset: u64,
    pub row_order: RowOrder,
    pub values: Values,
}

/// The values of a vector: `factor * (stored + added)`, or `factor * exp(stored)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Values {
    pub factor: f32,
    pub added: f32,
    pub exponential: bool,
}

impl Default for Values {
    fn default() -> Self {
        Self {
            factor: 1.0,
            added: 0.0,
            exponential: false,
        }
    }
}

impl Values {
    /// Computes the values from the stored ones.
    #[allow(clippy::float_cmp)] // zero is exact, and a negative zero stays one
    pub(in crate::model) fn compute(self, values: &mut [f32]) {
        if self != Self::default() {
            for value in values {
                *value = self.factor
                    * if self.exponential {
                        value.exp()
                    } else {
                        *value + self.added
                    };
            }
        }
    }
}

/// The order of a tensor's rows in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOrder {
    Plain,
    /// GGUF's Llama converter interleaves the two halves of each head of Q and K (`heads` of them): row `2 i + h` of a
    /// head is row `h * head_dim / 2 + i` of the original.
    Interleaved {
        heads: usize,
    },
    /// The tensor has the first `length` of each `stride` rows of the file, from row `first` on.
    Blocks {
        length: usize,
        stride: usize,
        first: usize,
    },
}

impl Tensor {
    /// Returns the bytes of one row in the file.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        self.format.row_bytes(self.columns)
    }

    /// Returns the bytes of the whole tensor in the file.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.rows * self.row_bytes()
    }

    /// Returns a vector, if each of its elements can be read separately.
    pub(in crate::model) fn separable(self) -> Result<Self, Defect> {
        if self.format.block_len() > 1 {
            let problem = format!("is {:?}; a vector must be F32, F16 or BF16", self.format);
            return Err(Defect::tensor(&self.name, problem));
        }
        Ok(self)
    }

    /// Returns a vector as a matrix of one column, so that its elements are rows.
    pub(in crate::model) fn as_column(&self) -> Self {
        Self {
            rows: self.columns,
            columns: 1,
            ..self.clone()
        }
    }

    /// Returns the row of the file that holds row `row` of the model.
    #[must_use]
    pub fn file_row(&self, row: usize) -> usize {
        match self.row_order {
            RowOrder::Plain => row,
            // A vector is one row; its elements are interleaved, see `as_column`.
            RowOrder::Interleaved { .. } if self.rows == 1 => row,
            RowOrder::Interleaved { heads } => {
                let head_dim = self.rows / heads;
                let (head, within) = (row / head_dim, row % head_dim);
                let (half, pair) = (within / (head_dim / 2), within % (head_dim / 2));
                head * head_dim + 2 * pair + half
            }
            RowOrder::Blocks {
                length,
                stride,
                first,
            } => row / length * stride + first + row % length,
        }
    }

    /// Whether the rows of the file that hold `rows` of the model are one range in order.
    #[must_use]
    pub fn is_contiguous(&self, rows: &Range<usize>) -> bool {
        self.row_order == RowOrder::Plain || rows.len() <= 1
    }
}
