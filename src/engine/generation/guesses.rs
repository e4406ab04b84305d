//! The guesses of a generation: tokens that its next step computes together with the token that was chosen last.
//!
//! It asks the proposer that needs no device, and the guide for masks; `drafts` has the guesses of proposers that run passes.
//! It decides neither how many rows a step has left, nor which guesses are right.

use std::sync::Arc;

use super::state::Generation;
use crate::guess::{Lookup, Proposer, StepCosts};
use crate::guide::Guide;
use crate::kv::FIRST_IMAGE_ROW;
use crate::sampler::Promise;
use crate::telemetry::{self, GuessCounts};

impl Generation {
    /// Returns at most `most` guesses of its next tokens. They come after `forced` forced tokens of the same step.
    pub(crate) fn guesses(&mut self, most: usize, forced: usize) -> Vec<u32> {
        self.asked = self.own_proposer();
        // The last token is chosen.
        let left = self.tokens_left().saturating_sub(forced + 1);
        self.propose(most.min(self.most_guesses()).min(left))
    }

    /// Returns the masks after guesses of its next tokens, if its guide limits them. There may be fewer: the guesses after the last
    /// mask are wrong. A promise that breaks belongs to a wrong guess, or to one that completes the answer.
    pub(crate) fn masks_after(&self, guesses: &[u32]) -> Option<Vec<Promise>> {
        let guide = self.guide.as_ref().filter(|_| !guesses.is_empty());
        guide.and_then(|guide| guide.guess(guesses))
    }

    /// Sets earlier answers of its user, which it may repeat, the latest first.
    pub(crate) fn set_past(&mut self, answers: Vec<Arc<Lookup>>) {
        if let Some(proposer) = &mut self.proposer {
            proposer.set_past(answers);
        }
    }

    /// Returns its user and its answer if later answers may look it up.
    pub(crate) fn answered(&self) -> Option<(u32, &[u32])> {
        let looks_up = matches!(self.proposer, Some(Proposer::Lookup(_)));
        looks_up.then_some((self.request.client.user, &self.tokens[..]))
    }

    /// Returns the proposer that needs no device.
    fn own_proposer(&self) -> telemetry::Proposer {
        match self.proposer {
            Some(Proposer::Custom(..)) => telemetry::Proposer::Custom,
            Some(Proposer::Lookup(_)) | None => telemetry::Proposer::Lookup,
        }
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
            let acceptance = self.acceptances.of(self.own_proposer());
            costs.best(rows, most, acceptance.rate())
        } else {
            most
        }
    }

    /// Counts the guesses of a step.
    pub(crate) fn count_guesses(&mut self, proposed: usize, accepted: usize) {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        self.usage.proposed_tokens += count(proposed);
        self.usage.accepted_tokens += count(accepted);
        let counts = GuessCounts {
            proposed: proposed as u64,
            accepted: accepted as u64,
        };
        self.usage.proposals.add(self.asked, counts);
        if let Some(most) = self.usage.proposals.most() {
            self.usage.proposer = Some(most);
        }
        self.acceptances.record(self.asked, proposed, accepted);
    }

    /// Returns what made the guesses of its last step.
    pub(crate) fn asked(&self) -> telemetry::Proposer {
        self.asked
    }

    /// The most guesses of one step.
    pub(super) fn most_guesses(&self) -> usize {
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
        self.plausible(self.before_end(proposer.propose(most)))
    }

    /// Returns guesses up to the first token after which no other one follows.
    pub(super) fn before_end(&self, mut next: Vec<u32>) -> Vec<u32> {
        let codec = self.encoder.codec();
        let ends = |token: &u32| *token >= FIRST_IMAGE_ROW || codec.is_end(*token);
        let most = next.len();
        next.truncate(next.iter().position(ends).unwrap_or(most));
        next
    }

    /// Returns guesses as far as the guide is known to allow them.
    pub(super) fn plausible(&self, mut next: Vec<u32>) -> Vec<u32> {
        let plausible = |guide: &Guide| guide.plausible(&next);
        let plausible = self.guide.as_ref().map_or(next.len(), plausible);
        next.truncate(plausible);
        next
    }
}
