//! Weights in host memory, in the format of their file.

use std::ops::Range;
use std::sync::Arc;

use memmap2::Mmap;

use crate::quant::{Format, Span};

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
        debug_assert_eq!(bytes.len() % format.row_bytes(columns), 0);
        Self {
            format,
            columns,
            map: Arc::clone(map),
            bytes,
        }
    }

    pub(super) fn rows(&self) -> usize {
        self.bytes.len() / self.format.row_bytes(self.columns)
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

    /// Calls `sink` with the blocks of a row, as [`Format::spans`] does.
    #[inline(always)]
    pub(super) fn spans(&self, row: usize, sink: impl FnMut(&Span<'_>)) {
        self.format.spans(self.row(row), sink);
    }

    /// The stored bytes.
    #[inline(always)]
    pub(super) fn row(&self, row: usize) -> &[u8] {
        let stride = self.format.row_bytes(self.columns);
        &self.map[self.bytes.clone()][row * stride..][..stride]
    }
}
