//! What runs next, and steps: who has a row, and who is told what came of it.

use std::cell::Cell;
use std::time::Instant;

use super::arrivals::Arrivals;
use super::{Worker, fail};
use crate::engine::caller::error::EngineError;
use crate::engine::caller::request::{Priority, RequestError};
use crate::engine::generation::state::{After, Generation, GoesOn, Taken};
use crate::engine::observe::live::Work;
use crate::engine::observe::progress::Phase;
use crate::engine::schedule::policy::{self, Candidate, Next, Stage};
use crate::engine::schedule::slices::Slices;
use crate::kv::Owner;
use crate::runner::{RunError, Stepped};
use crate::telemetry::FinishReason;

impl Worker<'_> {
    /// Runs what is next of those that have joined; `more` says that there is something else to do, so that nobody rests.
    pub(super) fn advance(&mut self, more: bool) -> Result<(), RunError> {
        let all = self.going_on(&self.slices);
        let next = self.next(&all, &self.slices);
        let rows = if let Next::Step(ids) = &next {
            ids.len()
        } else {
            0
        };
        self.show(&all, rows);
        match next {
            Next::Prefill { id, others } => {
                let answers = all.iter().any(|one| one.stage == Stage::Decode);
                self.read(id, others, answers)
            }
            Next::Step(ids) => {
                let may = !self.is_read_after_step(&all);
                self.step(&ids, &all, may)
            }
            Next::Idle => {
                self.settle()?;
                // What is held, however long, is no step.
                self.observer.interrupted();
                if !more {
                    self.inbox.rest();
                }
                Ok(())
            }
        }
    }

    /// Those that have joined and may get on, where so much is known of slices.
    fn going_on(&self, slices: &Slices) -> Vec<Candidate> {
        let mut all = self.candidates(slices);
        all.retain(|one| !self.is_restoring(one.id) && !self.awaits_mask(one.id));
        let held = self.inbox.held();
        all.retain(|one| !held.rests(one.priority));
        all
    }

    fn next(&self, all: &[Candidate], slices: &Slices) -> Next {
        let slack = self.inbox.limits().prefill.slice;
        policy::next(all, self.runner.rows(), slices.owed(), slack)
    }

    /// Whether somebody's prompt is read on after the step that is next: it would wait for one that is launched behind that.
    fn is_read_after_step(&self, all: &[Candidate]) -> bool {
        if all.iter().all(|one| one.stage == Stage::Decode) {
            return false;
        }
        let slices = self.slices.after_step();
        matches!(
            self.next(&self.going_on(&slices), &slices),
            Next::Prefill { .. }
        )
    }

    /// Shows whom it answers: of those that may get on so many step together.
    pub(super) fn show(&mut self, all: &[Candidate], rows: usize) {
        let active = policy::active(all, self.runner.rows());
        let reading = active.iter().filter(|one| one.stage == Stage::Prefill);
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let everyone = self.generations.iter().chain(&self.displaced);
        let everyone: Vec<_> = everyone.map(Generation::priority).collect();
        let of = |priority| everyone.iter().filter(|one| **one == priority).count();
        let shown = self.observer.work().rows;
        let work = Work {
            rows: if rows == 0 && active.iter().any(|one| one.stage == Stage::Decode) {
                shown
            } else {
                count(rows)
            },
            reading: count(reading.count()),
            suspended: count(everyone.len() - active.len()),
            of: Priority::ALL.map(of).map(count),
            pages: self.runner.pages().map(count),
            pages_in_host: count(self.host.pages()),
        };
        self.observer.show(work);
    }

    pub(super) fn position(&self, id: u64) -> Option<usize> {
        self.generations
            .iter()
            .position(|generation| generation.id() == id)
    }

    pub(super) fn generation(&self, id: u64) -> Option<&Generation> {
        self.position(id).map(|at| &self.generations[at])
    }

    /// The tokens that entries of a step must say next, as far as the step has rows for them: none where a step is ahead.
    fn forced(&mut self, slots: &[usize]) -> Result<Vec<(usize, Vec<u32>)>, RunError> {
        let mut spare = self.runner.rows().saturating_sub(slots.len());
        let mut rows = Vec::with_capacity(slots.len());
        for slot in slots {
            let mut forced = Vec::new();
            let at = self.generations.iter().position(|one| one.slot() == *slot);
            if let Some(at) = at.filter(|_| !self.runner.is_ahead()) {
                let room = self.runner.capacity_of(*slot) - self.runner.len_of(*slot);
                forced = self.generations[at].force(spare.min(room.saturating_sub(2)));
                if !forced.is_empty() && !self.bound(at)? {
                    continue;
                }
            }
            spare -= forced.len();
            rows.push((*slot, forced));
        }
        Ok(rows)
    }

    /// Runs a step of these entries; where one was launched ahead, that one, and has one of these come behind it if it `may`. It is
    /// left for who comes if that one is read before a step of `all`.
    fn step(&mut self, ids: &[u64], all: &[Candidate], may: bool) -> Result<(), RunError> {
        let of = |id: &u64| self.generation(*id).map(Generation::slot);
        let mut slots: Vec<usize> = ids.iter().filter_map(of).collect();
        // An entry keeps its row, whoever else comes or goes, as far as may be.
        slots.sort_unstable();
        self.inbox.progress().enter(Phase::Answer);
        let is_timed = slots.len() == 1
            && self.observer.wants_times()
            && !self.generations.iter().any(Generation::is_guided);
        if self.runner.is_ahead() {
            let behind = if is_timed || !may {
                Vec::new()
            } else {
                self.behind(&self.ahead, &slots)
            };
            return self.take_ahead(&behind, Some(all));
        }
        if is_timed && let Some(slot) = slots.pop() {
            self.count(&[slot]);
            self.runner.turn_to(slot);
            let token = self.observer.time(&mut self.runner);
            let rows = vec![(slot, Vec::new())];
            return self.stepped(&rows, token.map(|token| vec![Ok(Some(token))]));
        }
        let rows = self.forced(&slots)?;
        if rows.is_empty() {
            return Ok(());
        }
        let current: Vec<_> = rows.iter().map(|(slot, _)| *slot).collect();
        let behind = if may && rows.iter().all(|(_, forced)| forced.is_empty()) {
            self.behind(&current, &current)
        } else {
            Vec::new()
        };
        self.run(&rows, &behind, Some(all))
    }

    /// Those of these entries that have a row of the step behind one of `current` entries: not who ends with that, and nobody
    /// where one of them can go on only once it is known what came of it.
    fn behind(&self, current: &[usize], slots: &[usize]) -> Vec<usize> {
        let mut behind = Vec::with_capacity(slots.len());
        let spare = self.runner.rows().saturating_sub(slots.len());
        for slot in slots {
            let steps = current.contains(slot);
            let mut generations = self.generations.iter();
            let generation = generations.find(|generation| generation.slot() == *slot);
            match generation.map(|generation| generation.goes_on(steps, spare)) {
                Some(GoesOn::AtOnce) if self.has_position(*slot, steps) => {
                    behind.push(*slot);
                }
                Some(GoesOn::Later) => return Vec::new(),
                _ => {}
            }
        }
        behind
    }

    /// Whether there is a position for another token of an entry, which comes after that of a step if it `steps`.
    fn has_position(&self, slot: usize, steps: bool) -> bool {
        let (held, pages) = (self.runner.len_of(slot), self.runner.capacity_of(slot));
        held + usize::from(steps) < pages
    }

    /// Takes the tokens of a step that was launched ahead: who has left meanwhile loses what is its own, and the others go
    /// on from there.
    pub(super) fn settle(&mut self) -> Result<(), RunError> {
        if self.runner.is_ahead() {
            self.take_ahead(&[], None)?;
        }
        Ok(())
    }

    /// The same where that step is of a conversation, which is to hold all that it will.
    pub(super) fn settle_for(&mut self, owner: Owner) -> Result<(), RunError> {
        if self.runner.is_launched(owner) {
            self.settle()?;
        }
        Ok(())
    }

    /// Takes the tokens of the step that was launched ahead, once one of other entries is behind it, if it is not left for who comes
    /// beside `all`; without these it is not.
    fn take_ahead(&mut self, behind: &[usize], all: Option<&[Candidate]>) -> Result<(), RunError> {
        let rows = std::mem::take(&mut self.ahead).into_iter();
        let rows: Vec<_> = rows.map(|slot| (slot, Vec::new())).collect();
        self.run(&rows, behind, all)
    }

    /// Runs a step, or goes on with one; `all` as in `take_ahead`.
    fn run(
        &mut self,
        rows: &[(usize, Vec<u32>)],
        behind: &[usize],
        all: Option<&[Candidate]>,
    ) -> Result<(), RunError> {
        let slots: Vec<_> = rows.iter().map(|(slot, _)| *slot).collect();
        if !self.runner.is_left() {
            self.count(&slots);
        }
        let begun = Instant::now();
        let arrivals = &Arrivals {
            inbox: self.inbox,
            rows: self.runner.rows(),
            has_row: self.generations.len() < self.runner.rows(),
            chunk: self.runner.prefill_chunk(),
            slices: &self.slices,
            prefill_times: &self.prefill_times,
            has_arrival: Cell::new(false),
        };
        let mut leaves = all.map(|all| move |until| arrivals.leave(all, until));
        let leaves = leaves
            .as_mut()
            .map(|leaves| leaves as &mut dyn FnMut(Instant) -> bool);
        let mut preempts = || arrivals.preempt();
        let stepped = self
            .runner
            .step_each(rows, behind, (leaves, Some(&mut preempts)));
        self.stepping += begun.elapsed();
        self.ahead.clear();
        let chosen = match stepped {
            Ok(Stepped::Left) => {
                self.ahead = slots;
                return Ok(());
            }
            Ok(Stepped::Chosen(chosen)) => Ok(chosen),
            Err(error) => Err(error),
        };
        self.slices.stepped(std::mem::take(&mut self.stepping));
        if self.runner.is_ahead() {
            self.ahead.extend_from_slice(behind);
        }
        self.stepped(rows, chosen)
    }

    /// Entries have a step.
    fn count(&mut self, slots: &[usize]) {
        for generation in &mut self.generations {
            if slots.contains(&generation.slot()) {
                generation.steps(self.runner.step_bytes_of(generation.slot()));
            }
        }
    }

    /// Tells each entry of a step its tokens; those that have ended are told nothing.
    fn stepped(
        &mut self,
        rows: &[(usize, Vec<u32>)],
        tokens: Result<Vec<Result<Option<u32>, RunError>>, RunError>,
    ) -> Result<(), RunError> {
        let at = |worker: &Self, slot: usize| {
            let mut generations = worker.generations.iter();
            generations.position(|generation| generation.slot() == slot)
        };
        let tokens = match tokens {
            Ok(tokens) => tokens,
            Err(error) if error.is_fatal() => return Err(error),
            Err(error) => {
                for (slot, _) in rows {
                    if let Some(at) = at(self, *slot) {
                        let generation = self.take_out(at);
                        generation.fail(EngineError::from(error.clone()).into());
                    }
                }
                return Ok(());
            }
        };
        // Of one that has left, or runs again, nobody gets a token.
        let told = rows
            .iter()
            .zip(&tokens)
            .filter(|((slot, _), token)| matches!(token, Ok(Some(_))) && at(self, *slot).is_some());
        let told = told.map(|((_, forced), _)| 1 + forced.len()).sum();
        self.observer.tokens(&mut self.runner, told);
        // An answer that its forced tokens complete ends before the token that was chosen after them.
        let mut whole = Vec::new();
        for ((slot, _), token) in rows.iter().zip(&tokens) {
            if let (Some(at), Ok(Some(token))) = (at(self, *slot), token) {
                let generation = &mut self.generations[at];
                if generation.is_whole() {
                    whole.push(generation.id());
                } else {
                    generation.show_guide(*token);
                }
            }
        }
        for ((slot, forced), token) in rows.iter().zip(tokens) {
            let Some(at) = at(self, *slot) else {
                continue;
            };
            let id = self.generations[at].id();
            match token {
                Ok(Some(token)) => {
                    for token in forced {
                        self.take(id, Taken::Forced(*token))?;
                    }
                    if whole.contains(&id) {
                        self.end(id, FinishReason::Stop);
                    }
                    self.take(id, Taken::Chosen(token))?;
                }
                // Its mask came too late: the step runs again for it.
                Ok(None) => {
                    debug_assert!(forced.is_empty(), "tokens that were taken would be lost");
                    self.generations[at].repeats();
                }
                Err(error) => fail(self.take_out(at), error)?,
            }
        }
        Ok(())
    }

    fn end(&mut self, id: u64, reason: FinishReason) {
        if let Some(at) = self
            .generations
            .iter()
            .position(|generation| generation.id() == id)
        {
            let at_once = self.generations.len();
            self.take_out(at).finish(reason, at_once);
        }
    }

    /// A token of an entry has come; it may have ended before.
    pub(super) fn take(&mut self, id: u64, token: Taken) -> Result<(), RunError> {
        let Some(at) = self
            .generations
            .iter()
            .position(|generation| generation.id() == id)
        else {
            return Ok(());
        };
        let generation = &mut self.generations[at];
        let slot = generation.slot();
        let full = self.runner.len_of(slot) >= self.runner.capacity_of(slot);
        let scored = match token {
            Taken::Chosen(_) => self.runner.scored(slot),
            Taken::Forced(_) => &[],
        };
        match generation.take(token, scored, full) {
            Ok(After::More) => {}
            Ok(After::Instead(token)) => {
                // Nothing is ahead of an entry that catches up.
                self.runner.turn_to(slot);
                self.runner.post(token);
            }
            // It has no further step.
            Ok(After::Ends(_)) => return Ok(()),
            Ok(After::End(reason)) => {
                self.end(id, reason);
                return Ok(());
            }
            Err(error) => {
                self.take_out(at).fail(RequestError::Guide(error));
                return Ok(());
            }
        }
        match token {
            Taken::Chosen(_) => self.bound(at).map(drop),
            Taken::Forced(_) => Ok(()),
        }
    }
}
