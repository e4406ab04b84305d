//! Figures that the kernel shows: the resident memory of this process, and the state of the board.

use std::fs;
use std::sync::Arc;

use crate::board::{BoardState, Watched};
use crate::meminfo;

#[derive(Clone, Debug, Default)]
pub(super) struct Machine {
    /// Bytes; `None` where the kernel does not show them.
    pub(super) resident: Option<u64>,
    pub(super) board: Arc<BoardState>,
}

impl Machine {
    /// Reads the files of the kernel. It can take milliseconds.
    pub(super) fn read(watched: &Watched) -> Self {
        let status = fs::read_to_string("/proc/self/status");
        Self {
            resident: status
                .ok()
                .and_then(|status| meminfo::bytes(&status, "VmRSS:")),
            board: watched.state(),
        }
    }
}
