//! The interface that runs the tapes of a vision tower: the host writes an image's inputs, runs operations in parts, and
//! reads the results.
//!
//! An executor of a tower holds its weights and buffers alone, so that a run can pause after any operation. It has no
//! cache and no conversations.

use std::fmt::Debug;
use std::ops::Range;

use super::step::ExecuteError;
use crate::tape::{Buffer, Tape};

/// Runs the tapes of one vision tower.
pub trait Encode: Debug + Send {
    /// Allocates buffers that are large enough for a tape, and so for every tape of fewer patches.
    ///
    /// # Errors
    /// If there is not enough memory.
    fn reserve(&mut self, tape: &Tape) -> Result<(), ExecuteError>;

    /// Writes whole rows of a buffer from row `first` on, rounded to its type.
    ///
    /// # Errors
    /// If the device has failed.
    fn write_rows(
        &mut self,
        tape: &Tape,
        buffer: Buffer,
        first: usize,
        values: &[f32],
    ) -> Result<(), ExecuteError>;

    /// Runs operations of a tape, whose inputs earlier operations or `write_rows` have written.
    ///
    /// # Errors
    /// If the device has failed.
    fn run_operations(&mut self, tape: &Tape, operations: Range<usize>)
    -> Result<(), ExecuteError>;

    /// Appends all rows of a buffer to `out`.
    ///
    /// # Errors
    /// If the device has failed.
    fn read_rows(
        &mut self,
        tape: &Tape,
        buffer: Buffer,
        out: &mut Vec<f32>,
    ) -> Result<(), ExecuteError>;

    /// Bytes of the buffers and of scratch memory.
    fn reserved_bytes(&self) -> u64;
}
