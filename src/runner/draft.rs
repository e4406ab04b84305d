//! Greedy steps of a draft model, whose tokens may be wrong: the cache's books get them once their conversation has them.
//!
//! A position of the cache is written again if its token was wrong, so nothing has to be undone. A model with recurrent layers
//! cannot be a draft model: its state would have to be.

use super::Runner;
use super::error::RunError;
use crate::executor::Given;
use crate::sampler::Parameters;

/// What a draft model runs of one conversation.
#[derive(Clone, Debug)]
pub struct Trial {
    pub slot: usize,
    /// The tokens of the conversation that the slot lacks, at least one.
    pub tokens: Vec<u32>,
    /// The number of tokens to choose, at least one. The slot has positions for them.
    pub most: usize,
}

impl Runner {
    /// Runs the tokens that conversations have gained, in one step, and then chooses more tokens step by step. Returns the chosen
    /// tokens of each. The tokens of the conversations are in the cache then; the chosen ones are not, until `confirm`.
    ///
    /// # Errors
    /// As `step_each`, if any of them fails.
    pub fn draft(&mut self, trials: &[Trial]) -> Result<Vec<Vec<u32>>, RunError> {
        self.draft_until(trials, &mut || false)
    }

    /// Runs the steps of `draft` until `is_over` returns true: it is called before each step is launched. If none has run, the
    /// slots have only the tokens that they had.
    ///
    /// # Errors
    /// As `draft`.
    pub fn draft_until(
        &mut self,
        trials: &[Trial],
        is_over: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Vec<u32>>, RunError> {
        let (mut rows, mut given) = (Vec::new(), Vec::new());
        for Trial { slot, tokens, .. } in trials {
            let Some((first, others)) = tokens.split_first() else {
                continue;
            };
            self.turn_to(*slot);
            self.retract(*slot)?;
            self.executor.set_token(*first);
            rows.extend(std::iter::repeat_n(*slot, tokens.len()));
            given.extend(others.iter().copied().map(Given::Forced));
        }
        let mut chosen = vec![Vec::new(); trials.len()];
        let most = trials.iter().map(|trial| trial.most).max().unwrap_or(0);
        for round in 1..=most {
            // A step that was launched behind the one before has no further one behind it.
            if !self.executor.is_ahead() && is_over() {
                break;
            }
            let goes_on = |trial: &&Trial| trial.most > round;
            let next: Vec<_> = trials.iter().filter(goes_on).map(|one| one.slot).collect();
            // A device launches no step behind one with given tokens. The next one is launched at once, so that the device does
            // not wait for it.
            let behind = if given.is_empty() && !is_over() {
                &next[..]
            } else {
                &[]
            };
            let ran = self.run_rows(&rows, &given, behind, (None, None));
            if let Err(error) = ran {
                // An error here shows at the next launch, too.
                let _ = self.executor.discard_ahead();
                self.lift_quarantine();
                return Err(error);
            }
            self.stepped(behind);
            for (trial, chosen) in trials.iter().zip(&mut chosen) {
                if round == 1 {
                    self.confirm(trial.slot, &trial.tokens);
                }
                if trial.most >= round {
                    chosen.push(self.executor.state_of(trial.slot).token);
                }
            }
            (rows, given) = (next, Vec::new());
        }
        Ok(chosen)
    }

    /// Adds tokens to a slot that `draft` has run, and that its conversation has meanwhile.
    pub fn confirm(&mut self, slot: usize, tokens: &[u32]) {
        for token in tokens {
            self.kv.push_to(slot, *token);
        }
    }

    /// Has a slot continue after the tokens that the cache's books have, after `draft`.
    ///
    /// # Errors
    /// If the device has failed.
    pub fn retract(&mut self, slot: usize) -> Result<(), RunError> {
        let position = self.kv.len_of(slot);
        self.begin_slot((slot, position), Parameters::default(), &[])
    }
}
