//! GPU to CPU: the most probable tokens beside each chosen one, in pinned memory. They are there before the token is.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use super::mailbox::{NOBODY, STEP_ROWS, TOKENS, wide_words};
use super::{Context, Pinned, Result};

/// The most that are told, as `BEST` of `kernels/state.cuh`.
const MOST: usize = 20;

/// The scores of each row of each of the latest steps: the chosen token's, then others'.
#[derive(Debug)]
pub struct Scores {
    memory: Pinned,
}

impl Scores {
    pub fn new(context: &Rc<Context>) -> Result<Self> {
        Pinned::new(context, TOKENS as usize * STEP_ROWS * (1 + MOST) * 8)
            .map(|memory| Self { memory })
    }

    /// Where the GPU sees them.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.memory.address()
    }

    /// Tokens and logarithms of their probabilities, of a row of step `sequence`, whose token has arrived: the chosen one
    /// first, the others in no order.
    pub fn of(&self, sequence: u32, row: usize) -> impl Iterator<Item = (u32, f32)> {
        let place = (sequence % TOKENS) as usize * STEP_ROWS + row % STEP_ROWS;
        let pairs = &wide_words(&self.memory)[place * (1 + MOST)..][..=MOST];
        let pairs = pairs.iter().map(|pair| pair.load(Ordering::Acquire));
        #[allow(clippy::cast_possible_truncation)] // each is half of it
        let split = |pair: u64| (pair as u32, f32::from_bits((pair >> 32) as u32));
        pairs.map(split).take_while(|(token, _)| *token != NOBODY)
    }
}
