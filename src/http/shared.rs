//! State that all handlers share.

use super::stored::Stored;
use super::traffic::Traffic;
use crate::front::Front;

/// The shared state; its clones are the same state.
#[derive(Clone, Debug)]
pub struct Shared {
    pub(super) front: Front,
    pub(super) stored: Stored,
    pub(super) traffic: Traffic,
}

impl Shared {
    #[must_use]
    pub fn new(front: Front) -> Self {
        Self {
            front,
            stored: Stored::default(),
            traffic: Traffic::default(),
        }
    }
}
