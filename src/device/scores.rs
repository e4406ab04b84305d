//! GPU to CPU: the most probable tokens of each row, in pinned memory. They arrive before the chosen token.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use super::Result;
use super::context::Context;
use super::mailbox::{MAILBOX_STEPS, NO_TOKEN, STEP_ROWS, wide_words};
use super::pinned::Pinned;

/// The most tokens that are reported, as `BEST` of `kernels/state.cuh`.
const MOST: usize = 20;

/// The scores of each row of the latest steps: that of the chosen token, then others.
#[derive(Debug)]
pub struct Scores {
    memory: Pinned,
}

impl Scores {
    pub fn new(context: &Rc<Context>) -> Result<Self> {
        Pinned::new(context, MAILBOX_STEPS as usize * STEP_ROWS * (1 + MOST) * 8)
            .map(|memory| Self { memory })
    }

    /// The address for the GPU.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.memory.address()
    }

    /// Tokens and log probabilities of a row of step `sequence`, whose token has arrived: the chosen token first, then
    /// others in any order.
    pub fn of(&self, sequence: u32, row: usize) -> impl Iterator<Item = (u32, f32)> {
        let place = (sequence % MAILBOX_STEPS) as usize * STEP_ROWS + row % STEP_ROWS;
        let pairs = &wide_words(&self.memory)[place * (1 + MOST)..][..=MOST];
        let pairs = pairs.iter().map(|pair| pair.load(Ordering::Acquire));
        #[allow(clippy::cast_possible_truncation)] // each is half of it
        let split = |pair: u64| (pair as u32, f32::from_bits((pair >> 32) as u32));
        pairs.map(split).take_while(|(token, _)| *token != NO_TOKEN)
    }
}
