//! The model's head or assistant as a proposer: it guesses for several conversations together, and its passes are timed.
//!
//! When it guesses, and how many tokens, is decided in `drafting`. The passes are those of `Runner::head_guesses_until`.

use std::time::Instant;

use crate::guess::StepCosts;
use crate::runner::{RunError, Runner};

/// The measured times of the head's passes.
#[derive(Debug)]
pub(super) struct Head {
    costs: StepCosts,
    /// Whether it is an assistant, which `draft.model` names.
    is_assistant: bool,
}

impl Head {
    /// Returns that of a model; `None` if it is loaded without one.
    pub(super) fn of(runner: &Runner) -> Option<Self> {
        runner.has_head().then(|| Self {
            costs: StepCosts::default(),
            is_assistant: runner.has_assistant(),
        })
    }

    /// Whether it is an assistant.
    pub(super) const fn is_assistant(&self) -> bool {
        self.is_assistant
    }

    /// Returns the seconds that a guess of one of several conversations takes.
    #[allow(clippy::cast_precision_loss)] // they are few
    pub(super) fn each(&self, conversations: usize) -> f64 {
        let pass = self.costs.time(conversations);
        pass.unwrap_or_default() / conversations.max(1) as f64
    }

    /// Has the head guess for slots, each with the most guesses, until `is_over` returns true before a pass.
    ///
    /// # Errors
    /// As `Runner::head_guesses`.
    pub(super) fn guess(
        &mut self,
        runner: &mut Runner,
        wanted: &[(usize, usize)],
        is_over: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Vec<u32>>, RunError> {
        let recordings = runner.graph().counters().recordings;
        let begun = Instant::now();
        let chosen = runner.head_guesses_until(wanted, is_over)?;
        let took = begun.elapsed();
        let passes = chosen.iter().map(Vec::len).max().unwrap_or(0);
        let each = took.checked_div(u32::try_from(passes).unwrap_or(u32::MAX));
        // A recording takes longer than many passes, and only the first ones need it.
        if runner.graph().counters().recordings == recordings
            && let Some(each) = each
        {
            self.costs.record(wanted.len(), each);
        }
        Ok(chosen)
    }
}
