//! One layer of a state: its heads and its rings.

use super::ring::Ring;
use crate::tape::{StateInfo, UPDATES};

/// One layer of one state.
#[derive(Clone, Debug)]
pub(super) struct Layer {
    /// (head, value_dim, key_dim), with all updates before `position`.
    pub(super) heads: Vec<f32>,
    pub(super) position: usize,
    /// (UPDATES, update), by position: those from `position` on are pending.
    pub(super) updates: Ring,
    /// (columns, channels), by position: inputs of the convolution.
    pub(super) columns: Ring,
}

impl Layer {
    pub(super) fn new(info: StateInfo) -> Self {
        Self {
            heads: vec![0.0; info.state_bytes() / 4],
            position: 0,
            updates: Ring::new(UPDATES, info.update_bytes() / 4),
            columns: Ring::new(info.columns(), info.channels),
        }
    }
}
