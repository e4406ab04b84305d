//! Values that are dealt in turn, so that each is combined with several values of other decks.

use crate::quant::random::Random;

/// Deals each value once before it deals any again.
#[derive(Clone, Debug)]
pub(super) struct Deck<T> {
    values: Vec<T>,
    left: Vec<T>,
    random: Random,
}

impl<T: Clone> Deck<T> {
    pub(super) fn new(seed: u64, values: &[T]) -> Self {
        Self {
            values: values.to_vec(),
            left: Vec::new(),
            random: Random::new(seed),
        }
    }

    pub(super) fn deal(&mut self) -> T {
        if self.left.is_empty() {
            self.left.clone_from(&self.values);
            for at in (1..self.left.len()).rev() {
                self.left.swap(at, self.random.below(at + 1));
            }
        }
        self.left
            .pop()
            .unwrap_or_else(|| unreachable!("no deck is empty"))
    }
}
