//! The pages that a conversation needs, and when a page has left the window of its layers.

use std::ops::Range;

use super::page::PAGE;
use super::prompt::before_image;

/// The most positions of a sequence, besides its end, for which pages of windows are kept.
pub(super) const CHECKPOINTS: usize = 4;
/// A prompt may diverge a little before a checkpoint, for example within the text that begins an answer.
const MARGIN: usize = PAGE;
/// The least distance of a recurrent state's checkpoint from the end of a prompt, whose last tokens begin the answer and
/// may be missing from the next prompt.
const STATE_MARGIN: usize = 16;

/// Groups of layers with a page table each, and the positions that they see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// For each group, the number of positions that a row sees, including its own; `None` means all.
    windows: Vec<Option<usize>>,
    /// The most positions that one run writes.
    pub(super) run: usize,
    /// The pages of a recurrent state; 0 if the model has none.
    pub(super) state: usize,
    /// Whether the rows of an image see each other, so that no sequence is continued within one.
    pub(super) whole_images: bool,
}

impl Default for Layout {
    fn default() -> Self {
        Self::plain()
    }
}

impl Layout {
    /// Creates a layout of groups with these windows, where one run writes at most `run` positions.
    #[must_use]
    pub fn new(windows: Vec<Option<usize>>, run: usize) -> Self {
        Self {
            windows,
            run,
            state: 0,
            whole_images: false,
        }
    }

    /// The layout of a model with a recurrent state of some pages.
    #[must_use]
    pub fn with_state(self, state: usize) -> Self {
        Self { state, ..self }
    }

    /// The layout of a model that computes all rows of an image at once, if it `is_so`.
    #[must_use]
    pub fn with_whole_images(self, is_so: bool) -> Self {
        Self {
            whole_images: is_so,
            ..self
        }
    }

    /// The greatest number of first positions, at most `positions`, that do not end within an image which is not cut.
    /// `number` returns the token at a position.
    #[must_use]
    pub fn whole(&self, number: impl Fn(usize) -> Option<u32>, positions: usize) -> usize {
        if self.whole_images {
            before_image(number, positions)
        } else {
            positions
        }
    }

    /// One group of layers that see all positions.
    #[must_use]
    pub fn plain() -> Self {
        Self::new(vec![None], 0)
    }

    /// Whether all layers see all positions, so that any prefix can be continued.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.windows == [None] && self.state == 0
    }

    /// Whether the model has a recurrent state.
    #[must_use]
    pub fn is_recurrent(&self) -> bool {
        self.state > 0
    }

    pub(super) fn groups(&self) -> usize {
        self.windows.len()
    }

    /// Whether a sequence can be continued only from some positions.
    pub(super) fn has_checkpoints(&self) -> bool {
        self.state > 0 || self.windows.iter().any(Option::is_some)
    }

    /// The position of the checkpoint for prompts that diverge at `position`. A recurrent state can be stored only between
    /// two chunks of a prompt.
    pub(super) fn checkpoint(&self, position: usize) -> usize {
        if self.state > 0 {
            position.saturating_sub(STATE_MARGIN) / PAGE * PAGE
        } else {
            position
        }
    }

    /// Whether a group sees all positions.
    pub(super) fn sees_all(&self, group: usize) -> bool {
        self.windows[group].is_none()
    }

    /// The positions that a row of a group sees.
    pub(super) fn window(&self, group: usize) -> usize {
        self.windows[group].unwrap_or(usize::MAX)
    }

    /// The elements of a group's table, one for 64 positions, that the row after `positions` positions reads.
    pub(super) fn needed(&self, group: usize, positions: usize) -> Range<usize> {
        let first = (positions + 1).saturating_sub(self.window(group));
        first / PAGE..positions.div_ceil(PAGE)
    }

    /// The elements that a prompt reads which diverges at a checkpoint, or a little before.
    pub(super) fn kept(&self, group: usize, checkpoint: usize) -> Range<usize> {
        let early = self.needed(group, checkpoint.saturating_sub(MARGIN));
        early.start..checkpoint.div_ceil(PAGE)
    }

    /// The pages of a group's ring: when the last of them is written, a row no longer sees the first.
    pub(super) fn ring(&self, group: usize) -> Option<usize> {
        self.windows[group].map(|window| (window + self.run).div_ceil(PAGE) + 1)
    }

    /// The most positions of a turn with a number of pages.
    #[must_use]
    pub fn positions(&self, pages: usize) -> usize {
        // A turn of more positions never needs fewer pages.
        let (mut fits, mut exceeds) = (0, pages + 1);
        while exceeds - fits > 1 {
            let middle = fits.midpoint(exceeds);
            if self.pages(middle * PAGE) <= pages {
                fits = middle;
            } else {
                exceeds = middle;
            }
        }
        fits * PAGE
    }

    /// The most pages of a turn of a number of positions: those of the rings, those of the cached prefix, those of two
    /// checkpoints, and those of its end.
    #[must_use]
    pub fn pages(&self, positions: usize) -> usize {
        let blocks = positions.div_ceil(PAGE);
        let pages = |group: usize| {
            let window = self.windows[group].unwrap_or(0);
            let kept = (window + MARGIN).div_ceil(PAGE) + 1;
            let all = self.ring(group).map(|ring| ring + 3 * kept);
            all.map_or(blocks, |all| all.min(blocks))
        };
        let states = 4 * self.state;
        (0..self.groups()).map(pages).sum::<usize>() + states
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_needs_the_pages_that_its_row_reads() {
        let layout = Layout::new(vec![None, Some(100)], 64);
        assert_eq!(layout.needed(0, 1000), 0..16);
        // The row at position 1000 sees positions 901 to 1000; its own page may be new.
        assert_eq!(layout.needed(1, 1000), 14..16);
        assert_eq!(layout.needed(1, 1024), 14..16);
        assert_eq!(layout.needed(1, 1027), 14..17);
        assert_eq!(layout.needed(1, 1059), 15..17);
        assert_eq!(layout.needed(1, 30), 0..1);
        assert_eq!(layout.ring(1), Some(4));
        assert_eq!(layout.pages(64), 2);
        assert!(layout.pages(100_000) < 1563 + 20);
        for pages in [0, 1, 2, 9, 30, 400] {
            let most = layout.positions(pages);
            assert!(most == 0 || layout.pages(most) <= pages);
            assert!(layout.pages(most + PAGE) > pages, "{pages}");
        }
        assert_eq!(Layout::plain().positions(7), 7 * PAGE);
    }
}
