//! State that all handlers share.

use std::time::Duration;

use super::stored::Stored;
use super::traffic::Traffic;
use crate::front::Front;

/// The longest time without a byte of a stream. The standard of server-sent events advises a comment about every 15 seconds.
const SILENCE: Duration = Duration::from_secs(15);

/// The shared state; its clones are the same state.
#[derive(Clone, Debug)]
pub struct Shared {
    pub(super) front: Front,
    pub(super) stored: Stored,
    pub(super) traffic: Traffic,
    /// The longest time without a byte of a stream.
    pub(super) silence: Duration,
}

impl Shared {
    #[must_use]
    pub fn new(front: Front) -> Self {
        Self {
            front,
            stored: Stored::default(),
            traffic: Traffic::default(),
            silence: SILENCE,
        }
    }
}
