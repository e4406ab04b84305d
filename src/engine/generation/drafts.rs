//! What the proposers that run passes need of a generation: its tokens, and how many guesses are wanted.
//!
//! It runs no pass, and knows neither the draft model, nor the model's head, nor what else the device has to do.

use super::state::Generation;
use crate::guess::StepCosts;
use crate::guide::Guide;
use crate::kv::FIRST_IMAGE_ROW;
use crate::telemetry::Proposer;

/// The tokens of a generation: its prompt, and its answer so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conversation<'a> {
    pub(crate) user: u32,
    prompt: &'a [u32],
    answer: &'a [u32],
    /// How many more tokens the answer may have.
    pub(crate) left: usize,
}

impl Conversation<'_> {
    pub(crate) fn len(&self) -> usize {
        self.prompt.len() + self.answer.len()
    }

    /// Returns at most `most` tokens from a position on.
    pub(crate) fn tokens(&self, from: usize, most: usize) -> Vec<u32> {
        let all = self.prompt.iter().chain(self.answer);
        all.skip(from).take(most).copied().collect()
    }

    /// Whether all of its tokens are in a vocabulary.
    pub(crate) fn is_within(&self, vocabulary: usize) -> bool {
        let mut all = self.prompt.iter().chain(self.answer);
        all.all(|token| *token < FIRST_IMAGE_ROW && (*token as usize) < vocabulary)
    }
}

impl Generation {
    /// Returns its tokens if a draft model may guess the next ones. There are no guesses while the generation repeats its answer.
    pub(crate) fn drafted(&self) -> Option<Conversation<'_>> {
        let guess = self.request.options.guess.as_ref();
        let drafts = guess.is_some_and(|guess| guess.source.drafts());
        (drafts && self.continues()).then(|| Conversation {
            user: self.request.client.user,
            prompt: self.prompt(),
            answer: &self.tokens,
            left: self.tokens_left(),
        })
    }

    /// Whether the model's head, or an assistant in its place, may guess its next tokens.
    pub(crate) fn uses_head(&self, is_assistant: bool) -> bool {
        let guess = self.request.options.guess.as_ref();
        let uses = guess.is_some_and(|guess| {
            // The settings name an assistant as the draft model.
            guess.source.uses_head() || is_assistant && guess.source.drafts()
        });
        // A pass would guess a token that is known.
        let forces = |guide: &Guide| guide.forced() > 0;
        uses && self.continues() && !self.guide.as_ref().is_some_and(forces)
    }

    /// Whether its next token continues an answer that has begun.
    fn continues(&self) -> bool {
        !self.request.is_prefill_ahead()
            && self.is_prefilled()
            && !self.tokens.is_empty()
            && self.is_current()
    }

    /// Returns how many guesses of a proposer that runs passes, at most `most`, pay in a step that has a number of rows without
    /// them. A guess takes `each` seconds to make.
    pub(crate) fn worthwhile_drafts(
        &self,
        proposer: Proposer,
        costs: &StepCosts,
        (rows, most): (usize, usize),
        each: f64,
    ) -> usize {
        // The last token is chosen.
        let most = most.min(self.tokens_left().saturating_sub(1));
        let most = most.min(self.most_guesses());
        let acceptance = self.acceptances.of(proposer);
        if self.guesses_where_it_pays() {
            costs.best_at(rows, most, acceptance.rate(), each)
        } else {
            acceptance.likely(most)
        }
    }

    /// Whether it is guessed only where that pays.
    pub(crate) fn guesses_where_it_pays(&self) -> bool {
        let guess = self.request.options.guess.as_ref();
        guess.is_some_and(|guess| guess.is_auto)
    }

    /// Returns the guesses for a step, of the tokens that a proposer has chosen. `vocabulary` is that of the model.
    pub(crate) fn take_drafts(
        &mut self,
        proposer: Proposer,
        mut tokens: Vec<u32>,
        vocabulary: usize,
    ) -> Vec<u32> {
        self.asked = proposer;
        // A draft model may have more rows in its embedding.
        let is_other = |token: &u32| *token as usize >= vocabulary;
        let most = tokens.len();
        tokens.truncate(tokens.iter().position(is_other).unwrap_or(most));
        let tokens = self.before_end(tokens);
        let made = !tokens.is_empty();
        let plausible = self.plausible(tokens);
        if made && plausible.is_empty() {
            // No step runs this guess, and its pass has taken its time.
            self.acceptances.record(proposer, 1, 0);
        }
        plausible
    }
}
