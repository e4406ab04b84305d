//! The state of a runner that runs prompts with images.

use std::collections::HashMap;

use crate::tape::{Ending, Tape};

/// What a runner keeps for prompts with images.
#[derive(Debug, Default)]
pub(super) struct ImageState {
    /// The tapes of slices with images, by their rows. Each is written on its first use.
    pub(super) prompts: HashMap<(usize, Ending), Tape>,
    /// The number that stands for the latest row of an image in the cache.
    pub(super) rows: u32,
    /// The distance from a row's position in the cache to the position that it rotates by, by slot. Slots without an entry
    /// have 0.
    pub(super) offsets: Vec<isize>,
}
