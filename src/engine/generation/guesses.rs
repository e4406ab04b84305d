//! The guesses of a generation: tokens that its next step computes together with the token that was chosen last.
//!
//! It asks the proposer, and the guide for masks. It decides neither how many rows a step has left, nor which guesses are right.

use super::state::Generation;
use crate::guess::StepCosts;
use crate::guide::Guide;
use crate::kv::FIRST_IMAGE_ROW;
use crate::sampler::Promise;

impl Generation {
    /// Returns at most `most` guesses of its next tokens, and the mask after each of them if its guide limits them. A promise
    /// that breaks belongs to a wrong guess, or to one that completes the answer.
    pub(crate) fn guesses(&self, most: usize) -> (Vec<u32>, Option<Vec<Promise>>) {
        let mut guesses = self.propose(most.min(self.most_guesses()));
        let guide = self.guide.as_ref().filter(|_| !guesses.is_empty());
        let masks = guide.and_then(|guide| guide.guess(&guesses));
        if let Some(masks) = &masks {
            guesses.truncate(masks.len());
        }
        (guesses, masks)
    }

    /// Whether its next step may have guesses, if it has `spare` rows for them, and if the step that runs has a row of it
    /// (`steps`) that chooses the token which is guessed first.
    pub(super) fn may_guess(&self, steps: bool, spare: usize) -> bool {
        let (unknown, most) = (usize::from(steps), spare.min(self.most_guesses()));
        most > 0 && self.propose(unknown + most).len() > unknown
    }

    /// Returns how many guesses, at most `most`, pay in a step that has a number of rows without them.
    pub(crate) fn worthwhile(&self, costs: &StepCosts, rows: usize, most: usize) -> usize {
        let most = most.min(self.most_guesses());
        let guess = self.request.options.guess.as_ref();
        if guess.is_some_and(|guess| guess.is_auto) {
            costs.best(rows, most, self.acceptance.rate())
        } else {
            most
        }
    }

    /// Counts the guesses of a step.
    pub(crate) fn count_guesses(&mut self, proposed: usize, accepted: usize) {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        self.usage.proposed_tokens += count(proposed);
        self.usage.accepted_tokens += count(accepted);
        self.acceptance.record(proposed, accepted);
    }

    /// The most guesses of one step.
    fn most_guesses(&self) -> usize {
        let guess = self.request.options.guess.as_ref();
        guess.map_or(0, |guess| guess.most)
    }

    /// Returns at most `most` tokens that may come next, as far as its guide is known to allow them. An end-of-turn token is no
    /// guess, because no token follows it.
    fn propose(&self, most: usize) -> Vec<u32> {
        // The last token is chosen.
        let most = most.min(self.tokens_left().saturating_sub(1));
        let may = most > 0 && self.is_current();
        let Some(proposer) = self.proposer.as_ref().filter(|_| may) else {
            return Vec::new();
        };
        let mut next = proposer.propose(most);
        let codec = self.encoder.codec();
        let ends = |token: &u32| *token >= FIRST_IMAGE_ROW || codec.is_end(*token);
        next.truncate(next.iter().position(ends).unwrap_or(most));
        let plausible = |guide: &Guide| guide.plausible(&next);
        let plausible = self.guide.as_ref().map_or(next.len(), plausible);
        next.truncate(plausible);
        next
    }
}
