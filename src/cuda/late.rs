//! Masks that are still being computed. Each is sent as soon as it is finished; the device does not wait for them.

use crate::device::STEP_ROWS;
use crate::sampler::Promise;

/// A mask that has not been sent.
#[derive(Debug)]
pub(super) struct LateMask {
    pub(super) slot: usize,
    /// Its index in device memory: that of the slot, or behind the slots for the mask after a guess.
    pub(super) index: usize,
    /// The number of the token that it is for.
    pub(super) number: u32,
    pub(super) mask: Promise,
}

/// The masks that have not been sent, and the places of masks after guesses.
#[derive(Debug, Default)]
pub(super) struct Late {
    pub(super) masks: Vec<LateMask>,
    /// The places that the guesses of the next step use.
    used: usize,
    /// The last number of a mask after a guess. No number is used twice, so a mask that is still on the device serves no
    /// other guess.
    number: u32,
}

impl Late {
    /// Adds the mask of a slot's next token.
    pub(super) fn push(&mut self, slot: usize, number: u32, mask: Promise) {
        self.masks.push(LateMask {
            slot,
            index: slot,
            number,
            mask,
        });
    }

    /// Adds the mask after a guess of a slot, on a device with so many slots. Returns its number and its index, or `None` if
    /// there is no place for it.
    pub(super) fn push_guess(
        &mut self,
        slot: usize,
        slots: usize,
        mask: Promise,
    ) -> Option<(u32, usize)> {
        let index = slots + self.used;
        if self.used == STEP_ROWS {
            return None;
        }
        self.used += 1;
        // 0 means that there is no mask.
        self.number = self.number.checked_add(1).unwrap_or(1);
        let number = self.number;
        self.masks.push(LateMask {
            slot,
            index,
            number,
            mask,
        });
        Some((number, index))
    }

    /// Discards the masks of a slot.
    pub(super) fn discard(&mut self, slot: usize) {
        self.masks.retain(|late| late.slot != slot);
    }

    /// Discards the masks after guesses, and frees their places.
    pub(super) fn discard_guesses(&mut self) {
        self.masks.retain(|late| late.index == late.slot);
        self.used = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The masks of an earlier step are still on the device.
    #[test]
    fn masks_after_guesses_have_places_of_their_own_and_new_numbers() {
        let mut late = Late::default();
        late.push(1, 5, Promise::default());
        let push = |late: &mut Late| late.push_guess(1, 4, Promise::default());
        assert_eq!(
            [push(&mut late), push(&mut late)],
            [Some((1, 4)), Some((2, 5))]
        );
        late.discard_guesses();
        assert_eq!(late.masks.len(), 1);
        let all: Vec<_> = (0..=STEP_ROWS).map(|_| push(&mut late)).collect();
        assert_eq!((all[0], all[STEP_ROWS]), (Some((3, 4)), None));
        late.discard(1);
        assert!(late.masks.is_empty());
    }
}
