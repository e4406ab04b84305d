//! How many guesses of a generation were right, by what made them.

use crate::guess::{Acceptance, Source};
use crate::telemetry::Proposer;

/// How many guesses of each proposer were right in one conversation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Acceptances([Acceptance; Proposer::ALL.len()]);

impl Acceptances {
    /// Returns those of a proposer.
    pub(super) fn of(&self, proposer: Proposer) -> &Acceptance {
        &self.0[proposer as usize]
    }

    /// Adds the guesses of a step.
    pub(super) fn record(&mut self, proposer: Proposer, guesses: usize, accepted: usize) {
        self.0[proposer as usize].record(guesses, accepted);
    }

    /// Forgets a little, after each token of the conversation.
    pub(super) fn age(&mut self) {
        self.0.iter_mut().for_each(Acceptance::age);
    }
}

/// Returns the name of the first proposer of a source in a receipt.
pub(super) fn named(source: &Source) -> Proposer {
    match source {
        Source::Any | Source::Lookup => Proposer::Lookup,
        Source::Draft => Proposer::Draft,
        Source::Head => Proposer::Head,
        Source::Custom(_) => Proposer::Custom,
    }
}
