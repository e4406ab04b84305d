//! Steps of several slots at once, and the bytes that a step moves.

use std::ops::Range;
use std::time::Instant;

use super::error::RunError;
use super::{Runner, logits_observer};
use crate::executor::{Behind, Pass, PreemptPrompt, PreemptStep};
use crate::executor::{ExecuteError, Given, StepState};
use crate::kv::{Owner, Wanted};
use crate::sampler::{Mask, Parameters, Promise, Scored};
use crate::tape::{Ending, Input, Op};

/// An operation of a step, and the bytes that it reads and writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpCost {
    pub(crate) kind: String,
    pub(crate) bytes: u64,
}

/// The result of a step.
#[derive(Debug)]
pub enum Stepped {
    /// The tokens that each slot chose, or an error of that slot. There are none if its mask was missing, so that its row runs
    /// again, and several if guesses were accepted.
    Chosen(Vec<Result<Vec<u32>, RunError>>),
    /// The step was preempted, and is ahead.
    Preempted,
}

impl Runner {
    /// Returns the most rows of a step, including those of forced and guessed tokens.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Starts a prompt as `begin` does, in a slot of `positions` positions that stays reserved until `leave`. Returns the slot,
    /// and how many tokens of the prompt its pages hold.
    pub fn join(
        &mut self,
        owner: Option<Owner>,
        user: u32,
        prompt: Wanted<'_>,
        parameters: Parameters,
        positions: usize,
    ) -> Result<(usize, usize), RunError> {
        let cached = self.begin_with(owner, user, prompt, parameters, positions)?;
        let slot = self.kv.active();
        self.kv.pin(slot);
        Ok((slot, cached))
    }

    /// Whether a user's prompt with `positions` positions can join once the slots `leaving` are free.
    #[must_use]
    pub fn has_room(&self, prompt: (u32, Wanted<'_>), positions: usize, leaving: &[usize]) -> bool {
        self.kv.has_room(prompt, positions, leaving)
    }

    /// Forgets rows of images that have these numbers, as `Kv::forget_rows`.
    pub fn forget_rows(&mut self, numbers: &Range<u32>) {
        self.kv.forget_rows(numbers);
    }

    /// Returns the length of the prefix of a user's prompt that the cache holds.
    #[must_use]
    pub fn held_of(&self, prompt: (u32, Wanted<'_>)) -> usize {
        self.kv.held_of(prompt)
    }

    /// Returns how many of the first `common` tokens of a slot's prompt another prompt can share once they are in the cache.
    #[must_use]
    pub fn shareable(&self, slot: usize, common: usize) -> usize {
        self.kv.shareable(slot, common)
    }

    /// Returns the pages that a user's active slots have, and the pages that another prompt would need.
    #[must_use]
    pub fn pages_of_user(&self, prompt: (u32, Wanted<'_>), positions: usize) -> (usize, usize) {
        self.kv.pages_of_user(prompt, positions)
    }

    /// Frees a slot, whose pages become idle.
    pub fn leave(&mut self, slot: usize) {
        self.executor.discard_preempted(slot);
        // Without it, the next prompt continues from an earlier checkpoint.
        if self.store_end(slot) {
            self.kv.ended(slot);
        }
        self.kv.unpin(slot);
    }

    /// Makes a slot the current one, of which `prefill` and `step` run.
    pub fn turn_to(&mut self, slot: usize) {
        self.kv.turn_to(slot);
        self.executor.activate(slot);
    }

    /// Whether a step was launched whose tokens have not been taken. The next step must have the same slots.
    #[must_use]
    pub fn is_ahead(&self) -> bool {
        self.executor.is_ahead()
    }

    /// Preempts the step that is ahead of these slots, if it has not come too far, so that a prompt can run before it continues.
    /// Returns whether it is preempted.
    pub fn preempt_step(&mut self, slots: &[usize]) -> Result<bool, RunError> {
        let Some(tape) = self.steps.get(&slots.len().next_power_of_two()) else {
            return Ok(false);
        };
        let preempted = self.executor.preempt_step(tape);
        self.checked(preempted)
    }

    /// Whether the step that is ahead is preempted.
    #[must_use]
    pub fn is_step_preempted(&self) -> bool {
        self.executor.is_step_preempted()
    }

    /// Returns the tokens that a slot holds.
    #[must_use]
    pub fn len_of(&self, slot: usize) -> usize {
        self.kv.len_of(slot)
    }

    /// Returns the bytes that a step of one slot alone moves.
    #[must_use]
    pub fn step_bytes_of(&self, slot: usize) -> u64 {
        self.step_bytes.at(self.kv.len_of(slot))
    }

    /// Whether the step that is ahead has a slot that a session has or had.
    #[must_use]
    pub fn is_launched(&self, owner: Owner) -> bool {
        self.executor.is_ahead() && self.kv.is_launched_of(owner)
    }

    /// Runs a step of several slots, each with its given tokens after the token that was chosen last: forced ones, then guesses. If
    /// a step is ahead, it must have the same slots, and no tokens can be given.
    ///
    /// The next step, of the slots `behind`, is launched before this one's tokens are known, unless `skip_next` returns true by
    /// then. The step itself is preempted if `preempt_running` returns true. Logits that are not finite only fail their own slot.
    ///
    /// # Errors
    /// As `step`, for errors of the whole step.
    pub fn step_each(
        &mut self,
        conversations: &[(usize, Vec<Given>)],
        behind: &[usize],
        (preempt_running, skip_next): (PreemptStep<'_>, PreemptPrompt<'_>),
    ) -> Result<Stepped, RunError> {
        let before: Vec<_> = conversations
            .iter()
            .map(|(slot, _)| self.executor.state_of(*slot))
            .collect();
        let rows = |(slot, given): &(usize, Vec<Given>)| vec![*slot; 1 + given.len()];
        let slots: Vec<_> = conversations.iter().flat_map(rows).collect();
        let given = conversations.iter().flat_map(|(_, given)| given);
        let given: Vec<_> = given.copied().collect();
        // A step behind may overwrite the logits. A slot without its state gets it before the next step.
        let may = self.observer.is_none() || self.executor.keeps_logits();
        let may = may && self.have_states(behind);
        let behind = if may { behind } else { &[] };
        match self.run_rows(&slots, &given, behind, (preempt_running, skip_next)) {
            Ok(Pass::Preempted) => {
                self.stepped(&slots);
                return Ok(Stepped::Preempted);
            }
            Ok(Pass::Ended) | Err(RunError::Execute(ExecuteError::NonFinite { .. })) => {}
            Err(error) => {
                self.stepped(behind);
                return Err(error);
            }
        }
        let each = conversations.iter().zip(before);
        let each = each.map(|((slot, given), before)| {
            if self.executor.awaits_mask(*slot) {
                return Ok(Vec::new());
            }
            let after = self.executor.state_of(*slot);
            let forced = given.iter().filter(|one| !one.is_guess()).count();
            let chosen = after.position.saturating_sub(before.position + forced);
            // The forced tokens may have failed.
            if chosen == 0 {
                let position = before.position;
                return Err(ExecuteError::NonFinite { position }.into());
            }
            let ran = given.iter().map(|one| one.token());
            let ran: Vec<_> = ran.take(forced + chosen - 1).collect();
            self.kv.push_to(*slot, before.token);
            ran.iter().for_each(|token| self.kv.push_to(*slot, *token));
            let accepted = &ran[forced..];
            Ok([accepted, &[after.token]].concat())
        });
        let each: Vec<_> = each.collect();
        self.show_rows(conversations, &each)?;
        // Only here: a free slot keeps the page of its last token until then.
        self.stepped(behind);
        Ok(Stepped::Chosen(each))
    }

    /// Shows the logits of a step to the observer. Rows of free slots, rows of forced tokens and rows of wrong guesses are left
    /// out, because their tokens may be dropped.
    fn show_rows(
        &mut self,
        conversations: &[(usize, Vec<Given>)],
        chosen: &[Result<Vec<u32>, RunError>],
    ) -> Result<(), RunError> {
        let (mut end, mut rows) = (0, Vec::new());
        for ((slot, given), chosen) in conversations.iter().zip(chosen) {
            let first = end;
            end += 1 + given.len();
            let forced = given.iter().filter(|one| !one.is_guess()).count();
            let after = first + forced;
            if let (true, Ok(chosen)) = (self.kv.is_pinned(*slot), chosen) {
                rows.extend(after + usize::from(forced > 0)..after + chosen.len());
            }
        }
        let tape = &self.steps[&end.next_power_of_two()];
        let observer = self.observer.as_ref();
        Ok(logits_observer::show(
            observer,
            &mut *self.executor,
            tape,
            rows,
        )?)
    }

    /// Runs a step of several slots without given tokens, and fails if one of them does. A slot without its mask returns its
    /// token again.
    pub fn step_rows(&mut self, slots: &[usize], more: bool) -> Result<Vec<u32>, RunError> {
        let conversations: Vec<_> = slots.iter().map(|at| (*at, Vec::new())).collect();
        let behind = if more { slots } else { &[] };
        let Stepped::Chosen(each) = self.step_each(&conversations, behind, (None, None))? else {
            return Ok(Vec::new());
        };
        let each = each.into_iter().zip(slots).map(|(token, slot)| {
            let last = token?.last().copied();
            Ok(last.unwrap_or_else(|| self.executor.state_of(*slot).token))
        });
        each.collect()
    }

    /// Runs `tokens` after the token that was chosen last, all in one step of one slot. Returns the token that is chosen then.
    pub fn step_forced(&mut self, slot: usize, tokens: &[u32]) -> Result<u32, RunError> {
        let forced = forced(tokens);
        let ran = self.run_rows(&vec![slot; 1 + tokens.len()], &forced, &[], (None, None));
        self.checked(ran)?;
        self.stepped(&[slot]);
        Ok(self.executor.state_of(slot).token)
    }

    /// Runs at most `rows` tokens of a prompt by a step, because a step had generated them. `prompt` is the whole prompt of the
    /// slot, which needs its mask again.
    pub fn read_said(
        &mut self,
        slot: usize,
        said: &[u32],
        parameters: Parameters,
        prompt: &[u32],
    ) -> Result<(), RunError> {
        let Some((first, others)) = said.split_first() else {
            return Ok(());
        };
        self.turn_to(slot);
        self.settle_rotation(slot)?;
        self.executor.guide(slot, None)?;
        self.executor.set_token(*first);
        let others = forced(others);
        let ran = self.run_rows(&vec![slot; said.len()], &others, &[], (None, None));
        self.checked(ran)?;
        said.iter().for_each(|token| self.kv.push_to(slot, *token));
        self.stepped(&[slot]);
        let position = self.kv.len_of(slot);
        self.begin_slot((slot, position), parameters, prompt)?;
        self.settle_rotation(slot)
    }

    /// Returns the size of the vocabulary, for which masks have bits.
    #[must_use]
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// Sets the mask of a slot's next token, as `Executor::guide`.
    pub fn guide(&mut self, slot: usize, mask: Option<&Mask>) -> Result<(), RunError> {
        self.executor.guide(slot, mask)?;
        self.lift_quarantine();
        Ok(())
    }

    /// Sets a mask that is still being computed, as `Executor::guide_later`.
    pub fn guide_later(&mut self, slot: usize, mask: Promise) -> Result<(), RunError> {
        self.executor.guide_later(slot, mask)?;
        self.lift_quarantine();
        Ok(())
    }

    /// Sets the masks after the guesses of a slot's next step, as `Steps::guide_guesses`.
    pub fn guide_guesses(&mut self, slot: usize, masks: Vec<Promise>) -> Result<(), RunError> {
        Ok(self.executor.guide_guesses(slot, masks)?)
    }

    /// Returns the token that was chosen last in a slot, then the most probable ones, as `Executor::scored`.
    #[must_use]
    pub fn scored(&self, slot: usize) -> &[Scored] {
        self.executor.scored(slot).last().map_or(&[], Vec::as_slice)
    }

    /// Returns the same of the token that was chosen at an index of the last step.
    #[must_use]
    pub fn scored_at(&self, slot: usize, index: usize) -> &[Scored] {
        let scored = self.executor.scored(slot).get(index);
        scored.map_or(&[], Vec::as_slice)
    }

    /// Returns the filled positions of a slot, and the token that runs next.
    #[must_use]
    pub fn state_of(&self, slot: usize) -> StepState {
        self.executor.state_of(slot)
    }

    /// Replaces the token that the next step of the current slot runs.
    pub fn post(&mut self, token: u32) {
        self.executor.set_token(token);
    }

    pub(super) fn run_rows(
        &mut self,
        slots: &[usize],
        given: &[Given],
        behind: &[usize],
        (preempt_running, skip_next): (PreemptStep<'_>, PreemptPrompt<'_>),
    ) -> Result<Pass, RunError> {
        self.seat(slots)?;
        self.check_slots(behind)?;
        let [rows, rows_behind] = [slots, behind].map(|slots| slots.len().next_power_of_two());
        self.step_tape(rows)?;
        self.step_tape(rows_behind)?;
        let behind = (!behind.is_empty()).then(|| Behind {
            tape: &self.steps[&rows_behind],
            slots: behind,
            cut: preempt_running.is_some(),
            // This shortens the lifetime of the borrow.
            preempts: skip_next.map(|skip| -> &mut dyn FnMut() -> bool { skip }),
        });
        let step = &self.steps[&rows];
        let preempt_running =
            preempt_running.map(|preempt| -> &mut dyn FnMut(Instant) -> bool { preempt });
        Ok(self
            .executor
            .step_rows(step, slots, given, preempt_running, behind)?)
    }

    /// Prepares steps of 1, 2, 4 and more rows, so that no request waits for their memory.
    pub(super) fn prepare_steps(&mut self) -> Result<(), RunError> {
        let sizes = std::iter::successors(Some(self.rows.next_power_of_two()), |rows| {
            (*rows > 1).then_some(rows / 2)
        });
        // The largest tape comes first: the others use the memory that it allocates.
        sizes.into_iter().try_for_each(|rows| self.step_tape(rows))
    }

    fn step_tape(&mut self, rows: usize) -> Result<(), RunError> {
        if !self.steps.contains_key(&rows) {
            let tape = self.forward.tape(rows, Input::Step, Ending::Token);
            tape.check()?;
            self.executor.prepare(&tape)?;
            self.steps.insert(rows, tape);
        }
        Ok(())
    }

    /// Returns the logits of each row of the last `step_rows`.
    pub fn row_logits(&mut self, conversations: usize) -> Result<Vec<f32>, RunError> {
        let tape = &self.steps[&conversations.next_power_of_two()];
        Ok(self.executor.all_logits(tape)?)
    }

    /// Returns the bytes that each operation of a step moves, if each slot is as long as the current one.
    #[must_use]
    pub(crate) fn step_costs(&self, conversations: usize) -> Vec<OpCost> {
        let rows = conversations.next_power_of_two();
        let step = self.steps.get(&rows).unwrap_or(&self.step);
        let cost = |op: &Op| OpCost {
            // A layer has two such operations, which differ by their input.
            kind: match *op {
                Op::Project { input, .. } | Op::Product { input, .. } => {
                    format!("{} {}", op.name(), step.buffer(input).name)
                }
                _ => op.name().into(),
            },
            bytes: op.bytes(step, self.kv.len()),
        };
        step.ops.iter().map(cost).collect()
    }
}

fn forced(tokens: &[u32]) -> Vec<Given> {
    tokens.iter().copied().map(Given::Forced).collect()
}
