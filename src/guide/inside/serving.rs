//! The process of one grammar, as its parts use it: its daemon, the memory of masks, and its limits.

use std::io;
use std::sync::Arc;

use super::bounds::{Clock, Memory};
use super::vocabulary::Daemon;
use crate::guide::frame::{FromProcess, Masks};

/// The connection of a process to its daemon.
pub(super) struct Process {
    pub(super) daemon: Arc<Daemon>,
    pub(super) masks: Masks,
    pub(super) clock: Clock,
    pub(super) memory: Memory,
}

impl Process {
    pub(super) fn send(&self, message: &FromProcess) -> io::Result<()> {
        self.daemon.channel.send(message)
    }
}
