//! The buffers of a tape under construction.

use crate::quant::DType;
use crate::tape::{Buffer, BufferInfo};

/// The buffers of a tape, each with a name and a width. Layers of other widths have buffers of their own.
#[derive(Debug)]
pub(super) struct Buffers {
    rows: usize,
    /// The type of activations that matrices are multiplied with.
    activation: DType,
    infos: Vec<BufferInfo>,
}

impl Buffers {
    pub(super) fn new(rows: usize, activation: DType) -> Self {
        Self {
            rows,
            activation,
            infos: Vec::new(),
        }
    }

    /// Adds a buffer in f32 for each of `widths`, once.
    pub(super) fn add(&mut self, name: &'static str, widths: impl Iterator<Item = usize>) {
        for width in widths {
            self.add_of(name, (self.rows, width), DType::F32);
        }
    }

    /// Adds a buffer in the type of activations for each of `widths`, once.
    pub(super) fn add_rounded(&mut self, name: &'static str, widths: impl Iterator<Item = usize>) {
        for width in widths {
            self.add_of(name, (self.rows, width), self.activation);
        }
    }

    /// Adds a buffer in f32 with another number of rows.
    pub(super) fn add_rows(&mut self, name: &'static str, rows: usize, width: usize) {
        self.add_of(name, (rows, width), DType::F32);
    }

    fn add_of(&mut self, name: &'static str, (rows, columns): (usize, usize), dtype: DType) {
        if self.find(name, columns).is_none() {
            self.infos.push(BufferInfo {
                name,
                rows,
                columns,
                dtype,
            });
        }
    }

    fn find(&self, name: &str, columns: usize) -> Option<Buffer> {
        let is = |info: &BufferInfo| info.name == name && info.columns == columns;
        self.infos.iter().position(is).map(Buffer)
    }

    /// Returns a buffer that was added.
    ///
    /// # Panics
    /// If it was not.
    pub(super) fn of(&self, name: &str, width: usize) -> Buffer {
        let found = self.find(name, width);
        found.unwrap_or_else(|| unreachable!("the tape has no buffer {name} of {width}"))
    }

    pub(super) fn finish(self) -> Vec<BufferInfo> {
        self.infos
    }
}
