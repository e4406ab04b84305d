//! The guesses of an answer's next tokens whose masks were requested from its process.
//!
//! It sends no message, and reads no mask.

use std::collections::VecDeque;

use super::frame::ToProcess;
use crate::sampler::{Mask, Promise, Promised};

/// The latest guesses.
#[derive(Default)]
pub(super) struct Guesses {
    /// Their number, which identifies late replies for earlier ones.
    number: u32,
    /// How many of the reported tokens they follow.
    after: usize,
    tokens: Vec<u32>,
    /// The mask after each of them.
    masks: Vec<Promise>,
    /// Those that have not arrived, in order.
    promised: VecDeque<Promised>,
}

impl Guesses {
    /// Returns the masks after guesses that follow the first `after` reported tokens. Requests them, unless they were requested
    /// before.
    pub(super) fn request(
        &mut self,
        after: usize,
        tokens: &[u32],
        send: impl FnOnce(ToProcess),
    ) -> Vec<Promise> {
        if self.after != after || !self.tokens.starts_with(tokens) {
            self.forget();
            self.number += 1;
            (self.after, self.tokens) = (after, tokens.to_vec());
            for _ in tokens {
                let (promise, promised) = Promise::new();
                self.masks.push(promise);
                self.promised.push_back(promised);
            }
            send(ToProcess::Guess {
                number: self.number,
                after,
                tokens: tokens.to_vec(),
            });
        }
        self.masks.iter().take(tokens.len()).cloned().collect()
    }

    /// Keeps the next promise of the guesses with this number. Without a mask no further one arrives.
    pub(super) fn note(&mut self, number: u32, mask: impl FnOnce() -> Option<Mask>) {
        if number != self.number {
            return;
        }
        match (mask(), self.promised.pop_front()) {
            (Some(mask), Some(promised)) => promised.keep(mask),
            _ => self.promised.clear(),
        }
    }

    /// Breaks the promises of all masks that have not arrived, because the answer goes on or its process has ended.
    pub(super) fn forget(&mut self) {
        self.tokens.clear();
        self.masks.clear();
        self.promised.clear();
    }
}
