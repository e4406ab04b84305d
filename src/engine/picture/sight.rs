//! What the active model sees: how images become its patches, and how large they may be.

use crate::vision::Processor;

/// How images become patches for the tower of a model.
#[derive(Debug)]
pub(crate) struct Sight {
    pub(crate) processor: Processor,
    /// The most tokens of one image (`vision.max_tokens`).
    pub(crate) max_tokens: u64,
    /// The most patches of one tile: the tower has memory for as many.
    pub(crate) most_patches: usize,
}
