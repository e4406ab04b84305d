//! The choice of tokens: from the logits of each run, by its conversation's sampler and mask.
//!
//! It computes no logits.

use std::time::Duration;

use super::core::{Core, Guide};
use super::rows::Run;
use crate::executor::{ExecuteError, Given, StepState};
use crate::sampler::{Sampler, Scored};
use crate::tape::{Buffer, Tape};

/// How long a step waits for a mask. Most masks take a fraction of a step, but a grammar can be made slow.
const MASK: Duration = Duration::from_millis(2);

impl Core {
    /// Chooses the token after each run that has one. A guessed token that was not chosen has none, nor have those after it.
    pub(super) fn sample(
        &mut self,
        tape: &Tape,
        logits: Buffer,
        runs: &[Run],
    ) -> Result<(), ExecuteError> {
        let logits = self.buffers.activations[logits.0].chunks_exact(tape.buffer(logits).columns);
        let mut failed = None;
        for (run, logits) in runs.iter().zip(logits) {
            let conversation = &mut self.conversations[run.slot];
            let is_guess = match run.given {
                Some(Given::Forced(token)) => {
                    conversation.sampler.accept(token);
                    false
                }
                Some(Given::Guessed(_)) => {
                    if conversation.state != run.state {
                        continue;
                    }
                    // The mask after the guess that was chosen.
                    if !matches!(conversation.guide, Guide::Free) {
                        let mask = conversation.guesses.pop_front();
                        conversation.guide = mask.map_or(Guide::Awaited, Guide::Later);
                    }
                    true
                }
                None => false,
            };
            if !run.chooses {
                continue;
            }
            let position = run.state.position + run.rows.len();
            let mask = match &conversation.guide {
                Guide::Free => self.allowed.as_ref().map(Some),
                Guide::Awaited => Some(None),
                Guide::Allows(mask) => Some(Some(mask)),
                Guide::Later(mask) => Some(mask.wait_for(MASK).flatten()),
            };
            let awaits_mask = mask == Some(None);
            if !is_guess {
                conversation.awaits_mask = awaits_mask;
            }
            if awaits_mask {
                // The conversation stays unchanged, as on a GPU.
                if is_guess {
                    conversation.guide = Guide::Awaited;
                }
                continue;
            }
            let mask = mask.flatten();
            let Some(token) = conversation.sampler.sample(logits, mask) else {
                // Other conversations still get their tokens. A guessed row runs again, as the first of its step.
                if !is_guess {
                    let position = position - 1;
                    failed.get_or_insert(ExecuteError::NonFinite { position });
                }
                continue;
            };
            conversation.state = StepState { token, position };
            self.chosen += 1;
            if !matches!(conversation.guide, Guide::Free) {
                conversation.guide = Guide::Awaited;
            }
            if let Some(most) = conversation.sampler.parameters().logprobs {
                let all = &mut conversation.scored;
                // The list of an earlier step is reused.
                let reused = if is_guess { None } else { all.drain(..).next() };
                let mut scored = reused.unwrap_or_default();
                Scored::rank(logits, token, most.into(), &mut scored);
                all.push(scored);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Guesses the token after each row of a head, as its conversation would choose it after the tokens of the rows before.
    /// The masks of conversations limit no guess. No conversation changes.
    pub(super) fn guess(&mut self, tape: &Tape, logits: Buffer, runs: &[Run]) {
        let logits = self.buffers.activations[logits.0].chunks_exact(tape.buffer(logits).columns);
        self.guessed.clear();
        let mut copies: Option<(usize, Sampler)> = None;
        for (run, logits) in runs.iter().zip(logits) {
            let conversation = &self.conversations[run.slot];
            let mut sampler = match (copies.take(), self.guessed.last()) {
                (Some((slot, mut sampler)), Some(guess)) if slot == run.slot => {
                    // The token of this row comes after those before, instead of the guess.
                    match guess {
                        Some(_) => sampler.correct(run.state.token),
                        None => sampler.accept(run.state.token),
                    }
                    sampler
                }
                _ => conversation.sampler.copied(),
            };
            self.guessed
                .push(sampler.sample(logits, self.allowed.as_ref()));
            copies = Some((run.slot, sampler));
        }
        self.chosen += 1;
    }
}
