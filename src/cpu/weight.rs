//! Weights in host memory, in the format of their file.

use std::ops::Range;
use std::sync::Arc;

use memmap2::Mmap;

use crate::quant::{Blocks, Format, Vectors};

#[derive(Debug)]
pub enum Weight {
    /// A norm or a bias.
    Vector(Vec<f32>),
    Matrix(Matrix),
}

/// (rows, columns), row by row, in its file's format.
#[derive(Debug)]
pub struct Matrix {
    format: Format,
    columns: usize,
    /// Bytes of a row.
    stride: usize,
    /// The memory that holds this weight and others, and the range of this one.
    map: Arc<Mmap>,
    bytes: Range<usize>,
}

impl Weight {
    /// # Panics
    /// If it is a matrix. `Tape::check` excludes that.
    pub(super) fn vector(&self) -> &[f32] {
        match self {
            Self::Vector(values) => values,
            Self::Matrix(_) => unreachable!("a tape names a matrix where a vector belongs"),
        }
    }

    /// # Panics
    /// If it is a vector. `Tape::check` excludes that.
    pub(super) fn matrix(&self) -> &Matrix {
        match self {
            Self::Matrix(matrix) => matrix,
            Self::Vector(_) => unreachable!("a tape names a vector where a matrix belongs"),
        }
    }
}

impl Matrix {
    /// `bytes` of `map` are whole rows of `columns` elements.
    pub(super) fn new(
        format: Format,
        columns: usize,
        map: &Arc<Mmap>,
        bytes: Range<usize>,
    ) -> Self {
        let stride = format.row_bytes(columns);
        debug_assert_eq!(bytes.len() % stride, 0);
        Self {
            format,
            columns,
            stride,
            map: Arc::clone(map),
            bytes,
        }
    }

    pub(super) fn rows(&self) -> usize {
        self.bytes.len() / self.stride
    }

    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    #[inline(always)]
    pub(super) fn dequantize_row(&self, row: usize, out: &mut [f32]) {
        self.format.dequantize(self.row(row), out);
    }

    /// Calls `take` with a row's values, as [`Format::numbers`] does.
    #[inline(always)]
    pub(super) fn numbers(&self, row: usize, sink: impl FnMut(&[f32])) {
        self.format.numbers(self.row(row), sink);
    }

    /// Whether the format stores integers in groups, with scales.
    pub(super) fn has_groups(&self) -> bool {
        self.format.block_len() > 1
    }

    /// Calls `take` with the groups of a row, as [`Format::groups`] does.
    #[inline(always)]
    pub(super) fn groups(&self, row: usize, sink: impl FnMut(&[i8], f32, f32)) {
        self.format.groups(self.row(row), sink);
    }

    /// The columns of a block of integers; `None` for formats without blocks.
    pub(super) fn span(&self) -> Option<usize> {
        Some(self.format.block_len()).filter(|columns| *columns > 1)
    }

    /// Passes the blocks of a row to `to`, as [`Format::spans`] does.
    #[inline(always)]
    pub(super) fn spans<V: Vectors>(&self, vectors: V, row: usize, to: &mut impl Blocks<V>) {
        self.format.spans(vectors, self.row(row), to);
    }

    /// The stored bytes.
    #[inline(always)]
    pub(super) fn row(&self, row: usize) -> &[u8] {
        &self.map[self.bytes.clone()][row * self.stride..][..self.stride]
    }
}
