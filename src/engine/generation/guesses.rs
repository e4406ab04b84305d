//! The guesses of a generation: tokens that its next step computes together with the token that was chosen last.
//!
//! It asks the proposer. It decides neither how many rows a step has left, nor which guesses are right.

use super::state::Generation;
use crate::kv::FIRST_IMAGE_ROW;

impl Generation {
    /// Returns at most `most` guesses of its next tokens. There are none while a guide limits its tokens: the mask of a guessed
    /// token is not known. An end-of-turn token is no guess, because no token follows it.
    pub(crate) fn guesses(&self, most: usize) -> Vec<u32> {
        let (Some(guess), Some(proposer)) = (&self.request.options.guess, &self.proposer) else {
            return Vec::new();
        };
        // The last token is chosen.
        let most = most.min(guess.most).min(self.tokens_left().saturating_sub(1));
        if most == 0 || self.is_guided() || !self.is_current() {
            return Vec::new();
        }
        let mut guesses = proposer.propose(most);
        let codec = self.encoder.codec();
        let ends = |token: &u32| *token >= FIRST_IMAGE_ROW || codec.is_end(*token);
        guesses.truncate(guesses.iter().position(ends).unwrap_or(most));
        guesses
    }

    /// Whether its next step may have guesses, if the step that runs has a row of it (`steps`) and chooses the token that is
    /// guessed first.
    pub(super) fn may_guess(&self, steps: bool) -> bool {
        let unknown = usize::from(steps);
        self.guesses(usize::MAX).len() > unknown
    }

    /// Counts the guesses of a step.
    pub(crate) fn count_guesses(&mut self, proposed: usize, accepted: usize) {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        self.usage.proposed_tokens += count(proposed);
        self.usage.accepted_tokens += count(accepted);
    }
}
