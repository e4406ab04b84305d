//! Rows that share a state.

use std::ops::Range;

/// Consecutive rows of one conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cpu) struct Group {
    pub(in crate::cpu) slot: usize,
    /// The position of the first row.
    pub(in crate::cpu) position: usize,
    pub(in crate::cpu) rows: Range<usize>,
    /// Whether the rows are a prompt's, which writes a spare state.
    pub(in crate::cpu) prompt: bool,
}

impl Group {
    pub(super) fn end(&self) -> usize {
        self.position + self.rows.len()
    }

    /// The elements of these rows in a buffer with `columns`.
    pub(super) fn of(&self, columns: usize) -> Range<usize> {
        self.rows.start * columns..self.rows.end * columns
    }
}
