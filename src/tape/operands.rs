//! The operands of operations: buffers of activations, and weights.

use crate::quant::{DType, Format};

/// A buffer of activations: `rows * columns` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Buffer(pub usize);

/// The shape and type of a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferInfo {
    pub name: &'static str,
    pub rows: usize,
    pub columns: usize,
    pub dtype: DType,
}

/// A weight, by its index in the executor's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WeightId(pub usize);

/// The shape and format of a weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightInfo {
    pub name: String,
    pub rows: usize,
    pub columns: usize,
    pub format: Format,
}
