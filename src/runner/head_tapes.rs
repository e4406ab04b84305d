//! The tapes of the passes of a model's head.

use std::collections::HashMap;

use crate::tape::Tape;

/// The tapes of a head's passes, and its last one.
#[derive(Debug, Default)]
pub(super) struct HeadTapes {
    /// By their rows: 2, 4 or 8.
    pub(super) tapes: HashMap<usize, Tape>,
    /// The rows of the last pass, without padding.
    pub(super) rows: usize,
}
