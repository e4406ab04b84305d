//! `State` of `kernels/state.cuh`, as the host writes it at the start of a request.

use super::narrow;
use crate::sampler::{History, Parameters};
use crate::tape::StepState;

/// The token that stands for logits that are not finite.
pub(super) const NOT_FINITE: u32 = u32::MAX;

/// Words in the order of the struct.
#[derive(Clone, Copy, Debug)]
pub(super) struct State([u32; Self::BYTES / 4]);

impl State {
    pub(super) const BYTES: usize = 4 * (16 + crate::sampler::WINDOW);

    pub(super) fn new(
        step: StepState,
        generation: u32,
        sequence: u32,
        parameters: Parameters,
        history: &History,
    ) -> Self {
        let (tokens, pushed) = history.ring();
        let [seed_low, seed_high] = [parameters.seed, parameters.seed >> 32].map(|half| {
            #[allow(clippy::cast_possible_truncation)] // each is half of the seed
            let half = half as u32;
            half
        });
        let mut words = [0; Self::BYTES / 4];
        let head = [
            step.token,
            narrow(step.position),
            generation,
            sequence,
            parameters.temperature.to_bits(),
            parameters.top_p.to_bits(),
            parameters.min_p.to_bits(),
            parameters.repetition_penalty.to_bits(),
            parameters.top_k,
            0,
            0,
            seed_low,
            seed_high,
            narrow(pushed),
        ];
        words[..head.len()].copy_from_slice(&head);
        words[16..].copy_from_slice(tokens);
        Self(words)
    }

    pub(super) fn to_bytes(self) -> Vec<u8> {
        self.0.iter().flat_map(|word| word.to_le_bytes()).collect()
    }
}
