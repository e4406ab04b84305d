//! The state of a runner that runs prompts with images.

use std::collections::HashMap;

use super::image_places::ImagePlaces;
use crate::tape::{Ending, Tape};

/// What a runner keeps for prompts with images.
#[derive(Debug, Default)]
pub(super) struct ImageState {
    /// The tapes of slices with images, by their rows. Each is written on its first use.
    pub(super) prompts: HashMap<(usize, Ending), Tape>,
    /// The first number that no row of an image has, of those that the runner chooses itself.
    pub(super) next: u32,
    /// The images of each slot's prompt. Slots without an entry have none.
    places: Vec<SlotImages>,
}

/// The images of the prompt in a slot.
#[derive(Debug, Default)]
struct SlotImages {
    places: ImagePlaces,
    /// The distance from the position of a row of text to the position that it rotates by, as the executor has it.
    offset: isize,
}

static NONE: SlotImages = SlotImages {
    places: ImagePlaces::NONE,
    offset: 0,
};

impl ImageState {
    pub(super) fn places(&self, slot: usize) -> &ImagePlaces {
        &self.places.get(slot).unwrap_or(&NONE).places
    }

    pub(super) fn offset(&self, slot: usize) -> isize {
        self.places.get(slot).unwrap_or(&NONE).offset
    }

    pub(super) fn set_places(&mut self, slot: usize, places: ImagePlaces) {
        self.slot(slot).places = places;
    }

    pub(super) fn set_offset(&mut self, slot: usize, offset: isize) {
        self.slot(slot).offset = offset;
    }

    fn slot(&mut self, slot: usize) -> &mut SlotImages {
        if self.places.len() <= slot {
            self.places.resize_with(slot + 1, SlotImages::default);
        }
        &mut self.places[slot]
    }
}
