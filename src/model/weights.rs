//! The weights of a forward pass by name, and their storage in a file.
//!
//! `Weights<T>` is the structure for every stage: `Weights<Tensor>` has places in a checked checkpoint, and an executor
//! maps it to its own storage. Nothing here expands a weight to f32.

use std::ops::Range;

use super::error::Defect;
use crate::quant::Format;

/// Every weight of a model. `T` is a place in a file, an executor's storage, or an id on a tape.
#[derive(Clone, Debug)]
pub struct Weights<T> {
    /// (vocabulary, hidden)
    pub embedding: T,
    pub layers: Vec<Layer<T>>,
    /// (hidden)
    pub output_norm: T,
    /// (vocabulary, hidden); `None` if the head is tied to the embedding.
    pub head: Option<T>,
}

/// One transformer layer.
#[derive(Clone, Debug)]
pub struct Layer<T> {
    /// (hidden)
    pub attention_norm: T,
    /// (`heads * head_dim`, hidden)
    pub q: Linear<T>,
    /// (`kv_heads * head_dim`, hidden)
    pub k: Linear<T>,
    /// (`kv_heads * head_dim`, hidden)
    pub v: Linear<T>,
    /// (`head_dim`): Qwen3
    pub q_norm: Option<T>,
    /// (`head_dim`): Qwen3
    pub k_norm: Option<T>,
    /// (hidden, `heads * head_dim`)
    pub output: T,
    /// (hidden): a norm of attention's result before it is added (Gemma)
    pub attention_after: Option<T>,
    /// (hidden)
    pub mlp_norm: T,
    /// (intermediate, hidden)
    pub gate: T,
    /// (intermediate, hidden)
    pub up: T,
    /// (hidden, intermediate)
    pub down: T,
    /// (hidden): a norm of the MLP's result before it is added (Gemma)
    pub mlp_after: Option<T>,
}

/// `y = weight x + bias`
#[derive(Clone, Debug)]
pub struct Linear<T> {
    pub weight: T,
    /// (rows of weight)
    pub bias: Option<T>,
}

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

/// The values of a vector: `factor * (stored + added)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Values {
    pub factor: f32,
    pub added: f32,
}

impl Default for Values {
    fn default() -> Self {
        Self {
            factor: 1.0,
            added: 0.0,
        }
    }
}

impl Values {
    /// Computes the values from the stored ones.
    #[allow(clippy::float_cmp)] // zero is exact, and a negative zero stays one
    pub(super) fn compute(self, values: &mut [f32]) {
        if self != Self::default() {
            for value in values {
                *value = self.factor * (*value + self.added);
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
    pub(super) fn separable(self) -> Result<Self, Defect> {
        if self.format.block_len() > 1 {
            let problem = format!("is {:?}; a vector must be F32, F16 or BF16", self.format);
            return Err(Defect::tensor(&self.name, problem));
        }
        Ok(self)
    }

    /// Returns a vector as a matrix of one column, so that its elements are rows.
    pub(super) fn as_column(&self) -> Self {
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
        }
    }

    /// Whether the rows of the file that hold `rows` of the model are one range in order.
    #[must_use]
    pub fn is_contiguous(&self, rows: &Range<usize>) -> bool {
        self.row_order == RowOrder::Plain || rows.len() <= 1
    }
}

impl<T> Weights<T> {
    /// Returns the structure with each weight replaced by `f(weight)`, in the order of a forward pass.
    pub fn try_map<'a, U, E>(
        &'a self,
        mut f: impl FnMut(&'a T) -> Result<U, E>,
    ) -> Result<Weights<U>, E> {
        Ok(Weights {
            embedding: f(&self.embedding)?,
            layers: self
                .layers
                .iter()
                .map(|layer| layer.try_map(&mut f))
                .collect::<Result<_, E>>()?,
            output_norm: f(&self.output_norm)?,
            head: self.head.as_ref().map(&mut f).transpose()?,
        })
    }
}

impl<T> Layer<T> {
    fn try_map<'a, U, E>(
        &'a self,
        f: &mut impl FnMut(&'a T) -> Result<U, E>,
    ) -> Result<Layer<U>, E> {
        Ok(Layer {
            attention_norm: f(&self.attention_norm)?,
            q: self.q.try_map(f)?,
            k: self.k.try_map(f)?,
            v: self.v.try_map(f)?,
            q_norm: self.q_norm.as_ref().map(&mut *f).transpose()?,
            k_norm: self.k_norm.as_ref().map(&mut *f).transpose()?,
            output: f(&self.output)?,
            attention_after: self.attention_after.as_ref().map(&mut *f).transpose()?,
            mlp_norm: f(&self.mlp_norm)?,
            gate: f(&self.gate)?,
            up: f(&self.up)?,
            down: f(&self.down)?,
            mlp_after: self.mlp_after.as_ref().map(&mut *f).transpose()?,
        })
    }
}

impl<T> Linear<T> {
    fn try_map<'a, U, E>(
        &'a self,
        f: &mut impl FnMut(&'a T) -> Result<U, E>,
    ) -> Result<Linear<U>, E> {
        Ok(Linear {
            weight: f(&self.weight)?,
            bias: self.bias.as_ref().map(&mut *f).transpose()?,
        })
    }
}
