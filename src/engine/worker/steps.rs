//! Steps: which slots have a row, and what happens to the tokens that are chosen.

use std::cell::Cell;
use std::time::Instant;

use super::arrivals::Arrivals;
use super::drafting::Wish;
use super::state::Worker;
use crate::engine::caller::request::{Priority, RequestError};
use crate::engine::generation::state::{After, Generation, Lookahead, Token};
use crate::engine::observe::live::Work;
use crate::engine::observe::progress::Phase;
use crate::engine::schedule::policy::{self, Candidate, Next, Stage};
use crate::engine::schedule::slices::Slices;
use crate::executor::Given;
use crate::kv::Owner;
use crate::runner::{RunError, Runner, Stepped};
use crate::telemetry::{FinishReason, GuessCounts, Proposals};

/// The rows of a slot in a step: the slot, and the forced or guessed tokens that it runs in the same step.
type Row = (usize, Vec<Given>);

impl Worker<'_> {
    /// Runs what the scheduler chooses next. `more` says that pages may have arrived, so that the thread does not sleep.
    pub(super) fn advance(&mut self, more: bool) -> Result<(), RunError> {
        let all = self.runnable(&self.slices);
        let next = self.next(&all, &self.slices);
        let rows = if let Next::Step(slots) = &next {
            slots.len()
        } else {
            0
        };
        self.publish_work(&all, rows);
        match next {
            Next::Prefill { slot, others } => {
                let decoding = all.iter().any(|one| one.stage == Stage::Decode);
                self.prefill(slot, others, decoding)
            }
            Next::Step(slots) => {
                self.read_draft(&slots)?;
                let launches_ahead = !self.is_prefill_after_step(&all);
                self.step(slots, &all, launches_ahead)
            }
            Next::Idle => {
                self.settle()?;
                // The time of a hold does not count as the time of a step.
                self.observer.interrupt();
                if !more {
                    self.queue.wait_briefly();
                }
                self.mark_energy();
                Ok(())
            }
        }
    }

    /// Returns the candidates that can run: they wait for no pages, no mask and no hold.
    fn runnable(&self, slices: &Slices) -> Vec<Candidate> {
        let mut all = self.candidates(slices);
        all.retain(|one| !self.is_restoring(one.slot) && !self.awaits_mask(one.slot));
        let held = self.queue.held();
        all.retain(|one| !held.suspends(one.priority));
        all
    }

    fn next(&self, all: &[Candidate], slices: &Slices) -> Next {
        let slack = self.shared.limits().prefill.slice;
        policy::next(all, self.step_rows(), slices.are_steps_due(), slack)
    }

    /// Whether a prompt is prefilled after the next step. That prompt would have to wait for a step launched behind it.
    fn is_prefill_after_step(&self, all: &[Candidate]) -> bool {
        if all.iter().all(|one| one.stage == Stage::Decode) {
            return false;
        }
        let slices = self.slices.after_step();
        let next = self.next(&self.runnable(&slices), &slices);
        matches!(next, Next::Prefill { .. })
    }

    /// Publishes how many generations decode, prefill and are suspended. `rows` is the number of rows of the next step.
    pub(super) fn publish_work(&mut self, all: &[Candidate], rows: usize) {
        let active = policy::active(all, self.step_rows());
        let prefilling = active.iter().filter(|one| one.stage == Stage::Prefill);
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let everyone = self.slots.iter().chain(&self.displaced);
        let everyone: Vec<_> = everyone.map(Generation::priority).collect();
        let of = |priority| everyone.iter().filter(|one| **one == priority).count();
        let published = self.observer.work().rows;
        let work = Work {
            rows: if rows == 0 && active.iter().any(|one| one.stage == Stage::Decode) {
                published
            } else {
                count(rows)
            },
            reading: count(prefilling.count()),
            suspended: count(everyone.len() - active.len()),
            of: Priority::ALL.map(of).map(count),
            pages: self.runner.pages().map(count),
            evictions: self.runner.evictions(),
            pages_in_host: count(self.host.pages()),
            lost_states: self.runner.lost_states(),
        };
        self.observer.publish_work(work);
    }

    /// Returns the rows of a step of `slots`, with forced tokens and then guesses as far as the step has rows for them. There
    /// are none while a step is ahead.
    fn rows(&mut self, slots: &[usize]) -> Result<Vec<Row>, RunError> {
        let mut spare = self.step_rows().saturating_sub(slots.len());
        let mut rows = Vec::with_capacity(slots.len());
        for slot in slots.iter().copied() {
            let mut forced = Vec::new();
            if !self.runner.is_ahead()
                && let Some(generation) = self.slots.get_mut(slot)
            {
                let room = room(&self.runner, slot);
                forced = generation.take_forced(spare.min(room));
                if !forced.is_empty() && !self.guide(slot)? {
                    continue;
                }
            }
            spare -= forced.len();
            rows.push((slot, forced.into_iter().map(Given::Forced).collect()));
        }
        if !self.runner.is_ahead() {
            self.guess(&mut rows, spare)?;
        }
        Ok(rows)
    }

    /// Adds guesses to rows, after their forced tokens, at most `spare` of all together. Generations share them equally, as far
    /// as they have guesses. Proposers that need the device are asked for rows without other tokens. The masks after guesses are
    /// computed while the step runs.
    fn guess(&mut self, rows: &mut [Row], mut spare: usize) -> Result<(), RunError> {
        let slots: Vec<_> = rows.iter().map(|(slot, _)| *slot).collect();
        let (mut left, mut all) = (rows.len(), row_count(rows));
        let mut wishes = Vec::new();
        for (row, (slot, given)) in rows.iter_mut().enumerate() {
            let part = spare.div_ceil(left);
            left -= 1;
            if let Some(generation) = self.slots.get_mut(*slot) {
                let (slot, forced) = (*slot, given.len());
                let most = part.min(room(&self.runner, slot).saturating_sub(forced));
                let own = generation.worthwhile(&self.step_costs, all, most);
                let guesses = generation.guesses(own, forced);
                let mut count = guesses.len();
                given.extend(guesses.into_iter().map(Given::Guessed));
                if count + forced == 0 {
                    let (of, most) = self.drafts_of(slot, &slots, all, most);
                    count = most;
                    let wish = Wish {
                        row,
                        slot,
                        of,
                        most,
                    };
                    wishes.extend((count > 0).then_some(wish));
                }
                (spare, all) = (spare - count, all + count);
            }
        }
        let guesses = self.guesses_of_device(&wishes, &slots)?;
        for (Wish { row, .. }, guesses) in wishes.iter().zip(guesses) {
            let (_, given) = &mut rows[*row];
            given.extend(guesses.into_iter().map(Given::Guessed));
        }
        self.guide_guesses(rows)
    }

    /// Gives the executor the masks after the guesses that a guide limits. Guesses without a mask after them are removed.
    fn guide_guesses(&mut self, rows: &mut [Row]) -> Result<(), RunError> {
        for (slot, given) in rows {
            let guesses = given.iter().filter(|one| one.is_guess());
            let guesses: Vec<_> = guesses.map(|one| one.token()).collect();
            let generation = self.slots.get(*slot);
            let masks = generation.and_then(|generation| generation.masks_after(&guesses));
            if let Some(masks) = masks {
                let forced = given.len() - guesses.len();
                given.truncate(forced + masks.len());
                self.runner.guide_guesses(*slot, masks)?;
            }
        }
        Ok(())
    }

    /// Runs a step of `slots`. If one was launched ahead, it takes that step's tokens, and one of `slots` comes behind it if
    /// `launches_ahead`. A request that arrives and is prefilled before a step of `all` preempts it.
    fn step(
        &mut self,
        mut slots: Vec<usize>,
        all: &[Candidate],
        launches_ahead: bool,
    ) -> Result<(), RunError> {
        // A slot keeps its row as far as possible, whatever happens in other slots.
        slots.sort_unstable();
        self.shared.progress.enter(Phase::Answer);
        let is_timed = slots.len() == 1
            && self.observer.is_timing_due()
            && !self.slots.iter().any(Generation::is_guided);
        if self.runner.is_ahead() {
            let behind = if is_timed || !launches_ahead {
                Vec::new()
            } else {
                self.behind(&self.ahead, &slots)
            };
            return self.take_ahead(&behind, Some(all));
        }
        if is_timed && let Some(slot) = slots.pop() {
            self.count_step(&[slot]);
            self.runner.turn_to(slot);
            let token = self.observer.time_step(&mut self.runner);
            let rows = vec![(slot, Vec::new())];
            return self.take_tokens(&rows, token.map(|token| vec![Ok(vec![token])]));
        }
        let rows = self.rows(&slots)?;
        if rows.is_empty() {
            return Ok(());
        }
        let current: Vec<_> = rows.iter().map(|(slot, _)| *slot).collect();
        let behind = if launches_ahead && rows.iter().all(|(_, given)| given.is_empty()) {
            self.behind(&current, &current)
        } else {
            Vec::new()
        };
        self.run(&rows, &behind, Some(all))
    }

    /// Returns those of `slots` that have a row of the step behind one of `current`, without the generations that end with
    /// that one. Returns none if one of them can go on only once its token is known.
    fn behind(&self, current: &[usize], slots: &[usize]) -> Vec<usize> {
        if slots.iter().any(|slot| self.may_draft(*slot, slots)) {
            return Vec::new();
        }
        let mut behind = Vec::with_capacity(slots.len());
        let spare = self.step_rows().saturating_sub(slots.len());
        for slot in slots.iter().copied() {
            let steps = current.contains(&slot);
            let generation = self.slots.get(slot);
            let lookahead = |generation: &Generation| {
                let guesses = generation.worthwhile(&self.step_costs, slots.len(), spare);
                generation.lookahead(steps, spare, guesses)
            };
            match generation.map(lookahead) {
                Some(Lookahead::Known) if self.has_position(slot, steps) => behind.push(slot),
                Some(Lookahead::Unknown) => return Vec::new(),
                _ => {}
            }
        }
        behind
    }

    /// Whether a slot has a position for another token, after that of the current step if it `steps`.
    fn has_position(&self, slot: usize, steps: bool) -> bool {
        self.runner.len_of(slot) + usize::from(steps) < self.runner.capacity_of(slot)
    }

    /// Takes the tokens of the step that was launched ahead, and launches none behind it. Generations that have ended
    /// meanwhile lose theirs.
    pub(super) fn settle(&mut self) -> Result<(), RunError> {
        if self.runner.is_ahead() {
            self.take_ahead(&[], None)?;
        }
        Ok(())
    }

    /// Settles if the step that was launched ahead has a row of a session, so that the cache holds all of its tokens.
    pub(super) fn settle_for(&mut self, owner: Owner) -> Result<(), RunError> {
        if self.runner.is_launched(owner) {
            self.settle()?;
        }
        Ok(())
    }

    /// Takes the tokens of the step that was launched ahead, once a step of `behind` is launched. An arrival that comes
    /// before a step of `all` preempts it; without `all` nothing does.
    fn take_ahead(&mut self, behind: &[usize], all: Option<&[Candidate]>) -> Result<(), RunError> {
        let rows = std::mem::take(&mut self.ahead).into_iter();
        let rows: Vec<_> = rows.map(|slot| (slot, Vec::new())).collect();
        self.run(&rows, behind, all)
    }

    /// Runs a step, or continues one that was preempted. `all` as in `take_ahead`.
    fn run(
        &mut self,
        rows: &[Row],
        behind: &[usize],
        all: Option<&[Candidate]>,
    ) -> Result<(), RunError> {
        let slots: Vec<_> = rows.iter().map(|(slot, _)| *slot).collect();
        if !self.runner.is_step_preempted() {
            self.count_step(&slots);
        }
        let begun = Instant::now();
        let arrivals = &Arrivals {
            queue: self.queue,
            share: self.shared.limits().prefill,
            rows: self.step_rows(),
            has_row: self.slots.len() < self.step_rows(),
            chunk: self.runner.prefill_chunk(),
            slices: &self.slices,
            prefill_times: &self.prefill_times,
            has_arrival: Cell::new(false),
        };
        let mut preempt_running = all.map(|all| move |until| arrivals.preempts_running(all, until));
        let preempt_running = preempt_running
            .as_mut()
            .map(|preempt| preempt as &mut dyn FnMut(Instant) -> bool);
        let mut skip_next = || arrivals.preempts_next();
        let stepped = self
            .runner
            .step_each(rows, behind, (preempt_running, Some(&mut skip_next)));
        self.stepping += begun.elapsed();
        self.ahead.clear();
        let tokens = match stepped {
            Ok(Stepped::Preempted) => {
                self.ahead = slots;
                return Ok(());
            }
            Ok(Stepped::Chosen(tokens)) => Ok(tokens),
            Err(error) => Err(error),
        };
        self.slices.stepped(std::mem::take(&mut self.stepping));
        if self.runner.is_ahead() {
            self.ahead.extend_from_slice(behind);
        }
        self.take_tokens(rows, tokens)
    }

    /// Counts a step of `slots`, by the bytes that it moves.
    fn count_step(&mut self, slots: &[usize]) {
        for slot in slots {
            if let Some(generation) = self.slots.get_mut(*slot) {
                generation.count_step(self.runner.step_bytes_of(*slot));
            }
        }
    }

    /// Gives the generations of a step their tokens. A row whose generation has ended meanwhile gets none, and neither does
    /// one whose step runs again.
    fn take_tokens(
        &mut self,
        rows: &[Row],
        tokens: Result<Vec<Result<Vec<u32>, RunError>>, RunError>,
    ) -> Result<(), RunError> {
        let tokens = match tokens {
            Ok(tokens) => tokens,
            Err(error) if error.is_fatal() => return Err(error),
            Err(error) => {
                return rows
                    .iter()
                    .try_for_each(|(slot, _)| self.fail(*slot, error.clone()));
            }
        };
        let slots: Vec<_> = rows.iter().map(|(slot, _)| *slot).collect();
        self.share_energy(&slots);
        self.count_tokens(rows, &tokens);
        // A generation that its forced tokens complete ends before the token that was chosen after them.
        let mut complete = Vec::new();
        for ((slot, _), chosen) in rows.iter().zip(&tokens) {
            if let (Some(generation), Ok(tokens @ [_, ..])) =
                (self.slots.get_mut(*slot), chosen.as_deref())
            {
                if generation.is_complete() {
                    complete.push(*slot);
                } else {
                    generation.show_guide(tokens);
                }
            }
        }
        for ((slot, given), chosen) in rows.iter().zip(tokens) {
            match chosen {
                // The mask came too late, so the row runs again.
                Ok(chosen) if chosen.is_empty() => {
                    let guesses = given.iter().all(|one| one.is_guess());
                    debug_assert!(guesses, "tokens that were taken would be lost");
                    if let Some(generation) = self.slots.get_mut(*slot) {
                        generation.count_repeat();
                    }
                }
                Ok(chosen) => {
                    for forced in given.iter().filter(|one| !one.is_guess()) {
                        self.take(*slot, Token::Forced(forced.token()), 0)?;
                    }
                    if complete.contains(slot) {
                        self.end(*slot, FinishReason::Stop);
                    }
                    // A stop text may end the answer before the last of them.
                    let last = chosen.len() - 1;
                    for (index, token) in chosen.into_iter().enumerate() {
                        let token = if index < last {
                            Token::Accepted(token)
                        } else {
                            Token::Chosen(token)
                        };
                        self.take(*slot, token, index)?;
                    }
                }
                Err(error) => self.fail(*slot, error)?,
            }
        }
        Ok(())
    }

    /// Counts the tokens and the guesses of a step.
    fn count_tokens(&mut self, rows: &[Row], chosen: &[Result<Vec<u32>, RunError>]) {
        let (mut tokens, mut all) = (0, Proposals::default());
        let drafting = std::mem::take(&mut self.drafting);
        for ((slot, given), chosen) in rows.iter().zip(chosen) {
            let (Some(generation), Ok([_, accepted @ ..])) =
                (self.slots.get_mut(*slot), chosen.as_deref())
            else {
                continue;
            };
            let proposed = given.iter().filter(|one| one.is_guess()).count();
            generation.count_guesses(proposed, accepted.len());
            let counts = GuessCounts {
                proposed: proposed as u64,
                accepted: accepted.len() as u64,
            };
            all.add(generation.asked(), counts);
            tokens += 1 + given.len() - proposed + accepted.len();
        }
        if let Some(took) = self.observer.tokens(&mut self.runner, tokens, all) {
            let took = took.saturating_sub(drafting);
            self.step_costs.record(row_count(rows), took);
        }
    }

    /// Ends the generation in a slot, if there is one.
    pub(super) fn end(&mut self, slot: usize, reason: FinishReason) {
        let at_once = self.slots.len();
        if let Some(generation) = self.take_out(slot) {
            if let Some((user, answer)) = generation.answered() {
                self.past.add(user, answer, Instant::now());
            }
            generation.finish(reason, at_once);
        }
    }

    /// Gives the generation in a slot a token, and ends it if that was its last. Does nothing for a free slot. `index` is that of
    /// the token among those that the slot's last run chose.
    pub(super) fn take(&mut self, slot: usize, token: Token, index: usize) -> Result<(), RunError> {
        let Some(generation) = self.slots.get_mut(slot) else {
            return Ok(());
        };
        let full = self.runner.len_of(slot) >= self.runner.capacity_of(slot);
        let scored = match token {
            Token::Accepted(_) | Token::Chosen(_) => self.runner.scored_at(slot, index),
            Token::Forced(_) => &[],
        };
        match generation.take(token, scored, full) {
            Ok(After::More) => {}
            Ok(After::Instead(token)) => {
                // No step is ahead of a generation that repeats its tokens.
                self.runner.turn_to(slot);
                self.runner.post(token);
            }
            // It has no further step.
            Ok(After::Ends(_)) => return Ok(()),
            Ok(After::End(reason)) => {
                self.end(slot, reason);
                return Ok(());
            }
            Err(error) => {
                self.fail_request(slot, RequestError::Guide(error));
                return Ok(());
            }
        }
        match token {
            Token::Chosen(_) => self.guide(slot).map(drop),
            Token::Forced(_) | Token::Accepted(_) => Ok(()),
        }
    }
}

/// Returns the number of rows of a step.
fn row_count(rows: &[Row]) -> usize {
    rows.iter().map(|(_, given)| 1 + given.len()).sum()
}

/// Returns how many tokens may be given to a slot besides the one that was chosen last, so that it has a position for another
/// one after them.
fn room(runner: &Runner, slot: usize) -> usize {
    let room = runner.capacity_of(slot) - runner.len_of(slot);
    room.saturating_sub(2)
}
