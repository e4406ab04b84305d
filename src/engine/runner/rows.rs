//! Steps of several conversations at once, and what a step must move.

use super::{RunError, Runner};
use crate::tape::{Ending, Input, Op};

/// An operation of a step: what it does, and what it must read and write once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpCost {
    pub kind: String,
    pub bytes: u64,
}

impl Runner {
    /// The same of several conversations at once, each with the token that was chosen last in its region of the cache:
    /// what follows each. The same conversations step together until `more` is false.
    ///
    /// # Errors
    /// As `step`.
    pub fn step_rows(&mut self, regions: &[usize], more: bool) -> Result<Vec<u32>, RunError> {
        self.run_rows(regions, &[], more)?;
        let tokens = regions.iter().map(|at| self.executor.state_of(*at).token);
        Ok(tokens.collect())
    }

    /// Has the conversation in a region of the cache go on with `tokens` after the one that was chosen last, all in one
    /// step, and returns what is chosen after them.
    ///
    /// # Errors
    /// As `step`.
    pub fn step_forced(&mut self, region: usize, tokens: &[u32]) -> Result<u32, RunError> {
        self.run_rows(&vec![region; 1 + tokens.len()], tokens, false)?;
        Ok(self.executor.state_of(region).token)
    }

    /// The next step of the turn that runs starts with `token` rather than the one chosen last.
    pub fn post(&mut self, token: u32) {
        self.executor.post(token);
    }

    fn run_rows(&mut self, regions: &[usize], forced: &[u32], more: bool) -> Result<(), RunError> {
        let rows = regions.len().next_power_of_two();
        if !self.steps.contains_key(&rows) {
            let tape = self.forward.tape(rows, Input::Step, Ending::Token);
            tape.check()?;
            self.executor.prepare(&tape)?;
            self.steps.insert(rows, tape);
        }
        let step = &self.steps[&rows];
        Ok(self.executor.step_rows(step, regions, forced, more)?)
    }

    /// The logits of each row of the last `step_rows` of so many conversations.
    ///
    /// # Errors
    /// If the device has failed.
    pub fn row_logits(&mut self, conversations: usize) -> Result<Vec<f32>, RunError> {
        let tape = &self.steps[&conversations.next_power_of_two()];
        Ok(self.executor.step_logits(tape)?)
    }

    /// What each operation of the next `step` must move.
    #[must_use]
    pub fn step_costs(&self) -> Vec<OpCost> {
        let cost = |op: &Op| OpCost {
            // A layer has two projections, by what they take.
            kind: match *op {
                Op::Project { input, .. } => {
                    format!("{} {}", op.name(), self.step.slot(input).name)
                }
                _ => op.name().into(),
            },
            bytes: op.bytes(&self.step, self.kv.len()),
        };
        self.step.ops.iter().map(cost).collect()
    }
}
