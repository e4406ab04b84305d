//! Steps of several conversations at once, and what a step must move.

use std::time::Instant;

use super::{RunError, Runner};
use crate::engine::witness;
use crate::executor::{Behind, ExecuteError, Pass, PreemptPrompt, PreemptStep, StepState};
use crate::kv::{Owner, Wanted};
use crate::sampler::{Mask, Parameters, Promise, Scored};
use crate::tape::{Ending, Input, Op};

/// An operation of a step: what it does, and what it must read and write once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpCost {
    pub(crate) kind: String,
    pub(crate) bytes: u64,
}

/// What came of a step.
#[derive(Debug)]
pub enum Stepped {
    /// What each of its conversations says next: `None` for one that waits for its guide, and goes on with the same token; or why
    /// nothing is said.
    Chosen(Vec<Result<Option<u32>, RunError>>),
    /// It was left, and is ahead.
    Left,
}

impl Runner {
    /// Steps may have so many rows, tokens that conversations are to go on with among them.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Starts a turn of at most so many positions beside others that run, as `begin`, and has it keep its entry and pages until
    /// `leave`. Returns the entry, and how many tokens of the prompt its pages hold.
    pub fn join(
        &mut self,
        owner: Option<Owner>,
        user: u32,
        prompt: Wanted<'_>,
        parameters: Parameters,
        positions: usize,
    ) -> Result<(usize, usize), RunError> {
        let cached = self.begin_with(owner, user, prompt, parameters, positions)?;
        let entry = self.kv.active();
        self.kv.pin(entry);
        Ok((entry, cached))
    }

    /// Whether a user's turn of so many positions could join, if those in `leaving` entries gave way.
    #[must_use]
    pub fn has_room(&self, prompt: (u32, Wanted<'_>), positions: usize, leaving: &[usize]) -> bool {
        self.kv.has_room(prompt, positions, leaving)
    }

    /// How many tokens of a user's prompt, from the first, the cache holds.
    #[must_use]
    pub fn held_of(&self, prompt: (u32, Wanted<'_>)) -> usize {
        self.kv.held_of(prompt)
    }

    /// Pages that a user's turns have which run, and those that another would take besides.
    #[must_use]
    pub fn pages_of_user(&self, prompt: (u32, Wanted<'_>), positions: usize) -> (usize, usize) {
        self.kv.pages_of_user(prompt, positions)
    }

    /// The turn of an entry has ended: its pages serve others.
    pub fn leave(&mut self, entry: usize) {
        self.executor.discard_preempted(entry);
        self.kv.unpin(entry);
    }

    /// Another of the turns that run is the one that `prefill` and `step` go on with.
    pub fn turn_to(&mut self, entry: usize) {
        self.kv.turn_to(entry);
        self.executor.activate(entry);
    }

    /// Whether a step was launched whose tokens have not been taken: the next one is to be of the same conversations.
    #[must_use]
    pub fn is_ahead(&self) -> bool {
        self.executor.is_ahead()
    }

    /// Leaves the step that is ahead of these entries where it stands, if it has not come too far: a prompt may be read before it goes
    /// on. Returns whether it is left.
    pub fn leave_step(&mut self, entries: &[usize]) -> Result<bool, RunError> {
        let Some(tape) = self.steps.get(&entries.len().next_power_of_two()) else {
            return Ok(false);
        };
        let left = self.executor.preempt_step(tape);
        self.tried(left)
    }

    /// Whether the step that is ahead is left.
    #[must_use]
    pub fn is_left(&self) -> bool {
        self.executor.is_step_preempted()
    }

    /// Tokens that an entry holds.
    #[must_use]
    pub fn len_of(&self, entry: usize) -> usize {
        self.kv.len_of(entry)
    }

    /// Bytes that a step of the conversation in an entry must move, were it alone.
    #[must_use]
    pub fn step_bytes_of(&self, entry: usize) -> u64 {
        self.step_bytes.at(self.kv.len_of(entry))
    }

    /// Whether a step is ahead of a conversation, or of one that an entry had before.
    #[must_use]
    pub fn is_launched(&self, owner: Owner) -> bool {
        self.executor.is_ahead() && self.kv.is_launched_of(owner)
    }

    /// Runs the chosen tokens of several conversations, each in an entry of its own, and in the same step the tokens that
    /// each is to go on with, which only runs where no step is ahead; where one is, it is of these. The step after it is of the
    /// entries `behind`, if there are any, and may be launched before this one's tokens are there, unless something `preempts` it
    /// by then. It may be left on the way if it `leaves`. Of what is chosen, logits that are not finite do not stop the others.
    ///
    /// # Errors
    /// As `step`, if it is nobody's own.
    pub fn step_each(
        &mut self,
        conversations: &[(usize, Vec<u32>)],
        behind: &[usize],
        (leaves, preempts): (PreemptStep<'_>, PreemptPrompt<'_>),
    ) -> Result<Stepped, RunError> {
        let before: Vec<_> = conversations
            .iter()
            .map(|(entry, _)| self.executor.state_of(*entry))
            .collect();
        let rows = |(entry, forced): &(usize, Vec<u32>)| vec![*entry; 1 + forced.len()];
        let entries: Vec<_> = conversations.iter().flat_map(rows).collect();
        let forced = conversations.iter().flat_map(|(_, forced)| forced);
        let forced: Vec<_> = forced.copied().collect();
        // Another step may overwrite what there is to see.
        let may = self.settings.witness.is_none() || self.executor.keeps_logits();
        let behind = if may { behind } else { &[] };
        match self.run_rows(&entries, &forced, behind, (leaves, preempts)) {
            Ok(Pass::Preempted) => {
                self.stepped(&entries);
                return Ok(Stepped::Left);
            }
            Ok(Pass::Ended) | Err(RunError::Execute(ExecuteError::NonFinite { .. })) => {}
            Err(error) => {
                self.stepped(behind);
                return Err(error);
            }
        }
        let each = conversations.iter().zip(before);
        let each = each.map(|((entry, forced), before)| {
            if self.executor.awaits_mask(*entry) {
                return Ok(None);
            }
            let after = self.executor.state_of(*entry);
            // It may have got as far as the tokens that were given.
            if after.position != before.position + 1 + forced.len() {
                let position = before.position;
                return Err(ExecuteError::NonFinite { position }.into());
            }
            self.kv.push_to(*entry, before.token);
            forced
                .iter()
                .for_each(|token| self.kv.push_to(*entry, *token));
            Ok(Some(after.token))
        });
        let each: Vec<_> = each.collect();
        self.show_rows(conversations, &each)?;
        // Not before: an entry that has left keeps the page of its last token until then.
        self.stepped(behind);
        Ok(Stepped::Chosen(each))
    }

    /// Shows what the tokens of a step's conversations were chosen from, but of those that have left, and of what follows tokens that
    /// were given: neither may ever be said.
    fn show_rows(
        &mut self,
        conversations: &[(usize, Vec<u32>)],
        chosen: &[Result<Option<u32>, RunError>],
    ) -> Result<(), RunError> {
        let mut end = 0;
        let last = conversations.iter().map(|(entry, forced)| {
            end += 1 + forced.len();
            (end - 1, forced.is_empty() && self.kv.is_pinned(*entry))
        });
        let rows = last.zip(chosen).filter_map(|((row, stays), chosen)| {
            (stays && matches!(chosen, Ok(Some(_)))).then_some(row)
        });
        let rows: Vec<_> = rows.collect();
        let tape = &self.steps[&end.next_power_of_two()];
        let witness = self.settings.witness.as_ref();
        Ok(witness::show(witness, &mut *self.executor, tape, rows)?)
    }

    /// The same without tokens to go on with, for those who give up if one of them fails; of one that waits, its token again.
    pub fn step_rows(&mut self, entries: &[usize], more: bool) -> Result<Vec<u32>, RunError> {
        let conversations: Vec<_> = entries.iter().map(|at| (*at, Vec::new())).collect();
        let behind = if more { entries } else { &[] };
        let Stepped::Chosen(each) = self.step_each(&conversations, behind, (None, None))? else {
            return Ok(Vec::new());
        };
        let each = each.into_iter().zip(entries).map(|(token, entry)| {
            let token = token?;
            Ok(token.unwrap_or_else(|| self.executor.state_of(*entry).token))
        });
        each.collect()
    }

    /// Has the conversation in an entry go on with `tokens` after the one that was chosen last, all in one
    /// step, and returns what is chosen after them.
    pub fn step_forced(&mut self, entry: usize, tokens: &[u32]) -> Result<u32, RunError> {
        let ran = self.run_rows(&vec![entry; 1 + tokens.len()], tokens, &[], (None, None));
        self.tried(ran)?;
        self.stepped(&[entry]);
        Ok(self.executor.state_of(entry).token)
    }

    /// Runs tokens that the turn in an entry has said before, by steps, as they were run then: at most `rows`. It goes on from there
    /// as `join` left it; `prompt` is all of its prompt, and what may come next is to be said anew.
    pub fn read_said(
        &mut self,
        entry: usize,
        said: &[u32],
        parameters: Parameters,
        prompt: &[u32],
    ) -> Result<(), RunError> {
        let Some((first, others)) = said.split_first() else {
            return Ok(());
        };
        self.turn_to(entry);
        self.executor.guide(entry, None)?;
        self.executor.set_token(*first);
        let ran = self.run_rows(&vec![entry; said.len()], others, &[], (None, None));
        self.tried(ran)?;
        said.iter().for_each(|token| self.kv.push_to(entry, *token));
        self.stepped(&[entry]);
        let position = self.kv.len_of(entry);
        Ok(self.executor.begin((entry, position), parameters, prompt)?)
    }

    /// The number of tokens that masks have bits for.
    #[must_use]
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// What the conversation in an entry may say next, as `Executor::guide`.
    pub fn guide(&mut self, entry: usize, mask: Option<&Mask>) -> Result<(), RunError> {
        self.executor.guide(entry, mask)?;
        self.lift_quarantine();
        Ok(())
    }

    /// The same with a mask that is still being made, as `Executor::guide_later`.
    pub fn guide_later(&mut self, entry: usize, mask: Promise) -> Result<(), RunError> {
        self.executor.guide_later(entry, mask)?;
        self.lift_quarantine();
        Ok(())
    }

    /// The token that was chosen last in an entry, then the most probable ones, as `Executor::scored`.
    #[must_use]
    pub fn scored(&self, entry: usize) -> &[Scored] {
        self.executor.scored(entry)
    }

    /// How many positions of an entry are filled, and the token that comes next.
    #[must_use]
    pub fn state_of(&self, entry: usize) -> StepState {
        self.executor.state_of(entry)
    }

    /// The next step of the turn that runs starts with `token` rather than the one chosen last.
    pub fn post(&mut self, token: u32) {
        self.executor.set_token(token);
    }

    fn run_rows(
        &mut self,
        entries: &[usize],
        forced: &[u32],
        behind: &[usize],
        (leaves, preempts): (PreemptStep<'_>, PreemptPrompt<'_>),
    ) -> Result<Pass, RunError> {
        self.seated(entries)?;
        self.seated(behind)?;
        let [rows, rows_behind] =
            [entries, behind].map(|entries| entries.len().next_power_of_two());
        self.step_tape(rows)?;
        self.step_tape(rows_behind)?;
        let behind = (!behind.is_empty()).then(|| Behind {
            tape: &self.steps[&rows_behind],
            slots: behind,
            cut: leaves.is_some(),
            // Borrowed for no longer than the rest.
            preempts: preempts.map(|preempts| -> &mut dyn FnMut() -> bool { preempts }),
        });
        let step = &self.steps[&rows];
        let leaves = leaves.map(|leaves| -> &mut dyn FnMut(Instant) -> bool { leaves });
        Ok(self
            .executor
            .step_rows(step, entries, forced, leaves, behind)?)
    }

    /// Makes steps of 1, 2, 4 and more rows ready, up to what was asked for: no request is to pay for memory.
    pub(super) fn prepare_steps(&mut self) -> Result<(), RunError> {
        let sizes = std::iter::successors(Some(self.rows.next_power_of_two()), |rows| {
            (*rows > 1).then_some(rows / 2)
        });
        // The largest first: what it allocates serves all others.
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

    /// The logits of each row of the last `step_rows` of so many conversations.
    pub fn row_logits(&mut self, conversations: usize) -> Result<Vec<f32>, RunError> {
        let tape = &self.steps[&conversations.next_power_of_two()];
        Ok(self.executor.all_logits(tape)?)
    }

    /// What each operation of a next step of so many conversations must move, each as long as the turn that runs.
    #[must_use]
    pub(crate) fn step_costs(&self, conversations: usize) -> Vec<OpCost> {
        let rows = conversations.next_power_of_two();
        let step = self.steps.get(&rows).unwrap_or(&self.step);
        let cost = |op: &Op| OpCost {
            // A layer has two projections, by what they take.
            kind: match *op {
                Op::Project { input, .. } => {
                    format!("{} {}", op.name(), step.buffer(input).name)
                }
                _ => op.name().into(),
            },
            bytes: op.bytes(step, self.kv.len()),
        };
        step.ops.iter().map(cost).collect()
    }
}
