//! A ring of rows by position. A row that is written twice holds the last values.

use std::ops::Range;

#[derive(Clone, Debug)]
pub(super) struct Ring {
    rows: usize,
    columns: usize,
    values: Vec<f32>,
}

impl Ring {
    pub(super) fn new(rows: usize, columns: usize) -> Self {
        Self {
            rows,
            columns,
            values: vec![0.0; rows * columns],
        }
    }

    fn place(&self, position: usize) -> Range<usize> {
        let first = position % self.rows * self.columns;
        first..first + self.columns
    }

    pub(super) fn at(&self, position: usize) -> &[f32] {
        &self.values[self.place(position)]
    }

    pub(super) fn at_mut(&mut self, position: usize) -> &mut [f32] {
        let place = self.place(position);
        &mut self.values[place]
    }
}
