//! The model's head as a proposer: it guesses for all conversations of a step together, and its passes are timed.
//!
//! When it guesses, and how many tokens, is decided in `drafting`. The passes are those of `Runner::head_guesses`.

use std::time::Instant;

use super::drafting::Wish;
use super::state::Worker;
use crate::guess::StepCosts;
use crate::journal;
use crate::runner::{RunError, Runner};
use crate::telemetry::Proposer;

/// The measured times of the head's passes.
#[derive(Debug, Default)]
pub(super) struct Head {
    costs: StepCosts,
}

impl Head {
    /// Returns that of a model; `None` if it is loaded without one.
    pub(super) fn of(runner: &Runner) -> Option<Self> {
        runner.has_head().then(Self::default)
    }

    /// Returns the seconds that a guess of one of several conversations takes.
    #[allow(clippy::cast_precision_loss)] // they are few
    pub(super) fn each(&self, conversations: usize) -> f64 {
        let pass = self.costs.time(conversations);
        pass.unwrap_or_default() / conversations.max(1) as f64
    }
}

impl Worker<'_> {
    /// Returns the guesses of the model's head for each wish.
    ///
    /// # Errors
    /// If the device is lost.
    pub(super) fn guesses_of_head(&mut self, wishes: &[Wish]) -> Result<Vec<Vec<u32>>, RunError> {
        let none = vec![Vec::new(); wishes.len()];
        let Some(head) = &mut self.head else {
            return Ok(none);
        };
        let wanted: Vec<_> = wishes.iter().map(|wish| (wish.slot, wish.most)).collect();
        let recordings = self.runner.graph().counters().recordings;
        let begun = Instant::now();
        let chosen = match self.runner.head_guesses(&wanted) {
            Ok(chosen) => chosen,
            Err(error) => return self.give_up_head(error).map(|()| none),
        };
        let passes = chosen.iter().map(Vec::len).max().unwrap_or(0);
        // A recording takes longer than many passes, and only the first ones need it.
        if self.runner.graph().counters().recordings == recordings
            && let Some(each) = begun
                .elapsed()
                .checked_div(u32::try_from(passes).unwrap_or(u32::MAX))
        {
            head.costs.record(wishes.len(), each);
        }
        let vocabulary = self.runner.vocabulary();
        let mut guesses = none;
        for ((Wish { slot, .. }, chosen), guesses) in wishes.iter().zip(chosen).zip(&mut guesses) {
            if let Some(generation) = self.slots.get_mut(*slot) {
                *guesses = generation.take_drafts(Proposer::Head, chosen, vocabulary);
            }
        }
        Ok(guesses)
    }

    /// Makes no more guesses of the model's head because of an error. Its memory is part of the model's.
    ///
    /// # Errors
    /// If the device is lost.
    fn give_up_head(&mut self, error: RunError) -> Result<(), RunError> {
        if error.is_fatal() {
            return Err(error);
        }
        self.head = None;
        journal::head_failed(&error.to_string());
        self.shared.publish(|status| status.model.head = false);
        Ok(())
    }
}
