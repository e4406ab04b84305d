//! What runs next, and steps: who has a row, and who is told what came of it.

use std::cell::Cell;
use std::time::Instant;

use super::arrivals::Comers;
use super::{Worker, fail};
use crate::engine::caller::error::EngineError;
use crate::engine::caller::request::{Priority, RequestError};
use crate::engine::generation::state::{After, Entry, GoesOn, Taken};
use crate::engine::observe::live::Work;
use crate::engine::observe::progress::Phase;
use crate::engine::schedule::policy::{self, Next, Stage, Standing};
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
            Next::Read { id, others } => {
                let answers = all.iter().any(|one| one.stage == Stage::Answering);
                self.read(id, others, answers)
            }
            Next::Step(ids) => {
                let may = !self.is_read_after_step(&all);
                self.step(&ids, &all, may)
            }
            Next::Rest => {
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
    fn going_on(&self, slices: &Slices) -> Vec<Standing> {
        let mut all = self.standings(slices);
        all.retain(|one| !self.is_restoring(one.id) && !self.awaits_mask(one.id));
        let held = self.inbox.held();
        all.retain(|one| !held.rests(one.priority));
        all
    }

    fn next(&self, all: &[Standing], slices: &Slices) -> Next {
        let slack = self.inbox.limits().prefill.slice;
        policy::next(all, self.runner.rows(), slices.owed(), slack)
    }

    /// Whether somebody's prompt is read on after the step that is next: it would wait for one that is launched behind that.
    fn is_read_after_step(&self, all: &[Standing]) -> bool {
        if all.iter().all(|one| one.stage == Stage::Answering) {
            return false;
        }
        let slices = self.slices.after_step();
        matches!(
            self.next(&self.going_on(&slices), &slices),
            Next::Read { .. }
        )
    }

    /// Shows whom it answers: of those that may get on so many step together.
    pub(super) fn show(&mut self, all: &[Standing], rows: usize) {
        let active = policy::active(all, self.runner.rows());
        let reading = active.iter().filter(|one| one.stage == Stage::Reading);
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let everyone = self.entries.iter().chain(&self.displaced);
        let everyone: Vec<_> = everyone.map(Entry::priority).collect();
        let of = |priority| everyone.iter().filter(|one| **one == priority).count();
        let shown = self.observer.work().rows;
        let work = Work {
            rows: if rows == 0 && active.iter().any(|one| one.stage == Stage::Answering) {
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
        self.entries.iter().position(|entry| entry.id() == id)
    }

    pub(super) fn entry(&self, id: u64) -> Option<&Entry> {
        self.position(id).map(|at| &self.entries[at])
    }

    /// The tokens that entries of a step must say next, as far as the step has rows for them: none where a step is ahead.
    fn forced(&mut self, cache_entries: &[usize]) -> Result<Vec<(usize, Vec<u32>)>, RunError> {
        let mut spare = self.runner.rows().saturating_sub(cache_entries.len());
        let mut rows = Vec::with_capacity(cache_entries.len());
        for cache_entry in cache_entries {
            let mut forced = Vec::new();
            let at = self
                .entries
                .iter()
                .position(|one| one.place() == *cache_entry);
            if let Some(at) = at.filter(|_| !self.runner.is_ahead()) {
                let room = self.runner.capacity_of(*cache_entry) - self.runner.len_of(*cache_entry);
                forced = self.entries[at].force(spare.min(room.saturating_sub(2)));
                if !forced.is_empty() && !self.bound(at)? {
                    continue;
                }
            }
            spare -= forced.len();
            rows.push((*cache_entry, forced));
        }
        Ok(rows)
    }

    /// Runs a step of these entries; where one was launched ahead, that one, and has one of these come behind it if it `may`. It is
    /// left for who comes if that one is read before a step of `all`.
    fn step(&mut self, ids: &[u64], all: &[Standing], may: bool) -> Result<(), RunError> {
        let of = |id: &u64| self.entry(*id).map(Entry::place);
        let mut cache_entries: Vec<usize> = ids.iter().filter_map(of).collect();
        // An entry keeps its row, whoever else comes or goes, as far as may be.
        cache_entries.sort_unstable();
        self.inbox.progress().enter(Phase::Answer);
        let is_timed = cache_entries.len() == 1
            && self.observer.wants_times()
            && !self.entries.iter().any(Entry::is_guided);
        if self.runner.is_ahead() {
            let behind = if is_timed || !may {
                Vec::new()
            } else {
                self.behind(&self.ahead, &cache_entries)
            };
            return self.take_ahead(&behind, Some(all));
        }
        if is_timed && let Some(cache_entry) = cache_entries.pop() {
            self.count(&[cache_entry]);
            self.runner.turn_to(cache_entry);
            let token = self.observer.time(&mut self.runner);
            let rows = vec![(cache_entry, Vec::new())];
            return self.stepped(&rows, token.map(|token| vec![Ok(Some(token))]));
        }
        let rows = self.forced(&cache_entries)?;
        if rows.is_empty() {
            return Ok(());
        }
        let current: Vec<_> = rows.iter().map(|(cache_entry, _)| *cache_entry).collect();
        let behind = if may && rows.iter().all(|(_, forced)| forced.is_empty()) {
            self.behind(&current, &current)
        } else {
            Vec::new()
        };
        self.run(&rows, &behind, Some(all))
    }

    /// Those of these entries that have a row of the step behind one of `current` entries: not who ends with that, and nobody
    /// where one of them can go on only once it is known what came of it.
    fn behind(&self, current: &[usize], cache_entries: &[usize]) -> Vec<usize> {
        let mut behind = Vec::with_capacity(cache_entries.len());
        let spare = self.runner.rows().saturating_sub(cache_entries.len());
        for cache_entry in cache_entries {
            let steps = current.contains(cache_entry);
            let mut entries = self.entries.iter();
            let entry = entries.find(|entry| entry.place() == *cache_entry);
            match entry.map(|entry| entry.goes_on(steps, spare)) {
                Some(GoesOn::AtOnce) if self.has_position(*cache_entry, steps) => {
                    behind.push(*cache_entry);
                }
                Some(GoesOn::Later) => return Vec::new(),
                _ => {}
            }
        }
        behind
    }

    /// Whether there is a position for another token of an entry, which comes after that of a step if it `steps`.
    fn has_position(&self, cache_entry: usize, steps: bool) -> bool {
        let (held, pages) = (
            self.runner.len_of(cache_entry),
            self.runner.capacity_of(cache_entry),
        );
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
    fn take_ahead(&mut self, behind: &[usize], all: Option<&[Standing]>) -> Result<(), RunError> {
        let rows = std::mem::take(&mut self.ahead).into_iter();
        let rows: Vec<_> = rows.map(|cache_entry| (cache_entry, Vec::new())).collect();
        self.run(&rows, behind, all)
    }

    /// Runs a step, or goes on with one; `all` as in `take_ahead`.
    fn run(
        &mut self,
        rows: &[(usize, Vec<u32>)],
        behind: &[usize],
        all: Option<&[Standing]>,
    ) -> Result<(), RunError> {
        let entries: Vec<_> = rows.iter().map(|(cache_entry, _)| *cache_entry).collect();
        if !self.runner.is_left() {
            self.count(&entries);
        }
        let begun = Instant::now();
        let comers = &Comers {
            inbox: self.inbox,
            rows: self.runner.rows(),
            has_row: self.entries.len() < self.runner.rows(),
            chunk: self.runner.prefill_chunk(),
            slices: &self.slices,
            service: &self.service,
            has_come: Cell::new(false),
        };
        let mut leaves = all.map(|all| move |until| comers.leave(all, until));
        let leaves = leaves
            .as_mut()
            .map(|leaves| leaves as &mut dyn FnMut(Instant) -> bool);
        let mut preempts = || comers.preempt();
        let stepped = self
            .runner
            .step_each(rows, behind, (leaves, Some(&mut preempts)));
        self.stepping += begun.elapsed();
        self.ahead.clear();
        let chosen = match stepped {
            Ok(Stepped::Left) => {
                self.ahead = entries;
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
    fn count(&mut self, cache_entries: &[usize]) {
        for entry in &mut self.entries {
            if cache_entries.contains(&entry.place()) {
                entry.steps(self.runner.step_bytes_of(entry.place()));
            }
        }
    }

    /// Tells each entry of a step its tokens; those that have ended are told nothing.
    fn stepped(
        &mut self,
        rows: &[(usize, Vec<u32>)],
        tokens: Result<Vec<Result<Option<u32>, RunError>>, RunError>,
    ) -> Result<(), RunError> {
        let at = |worker: &Self, cache_entry: usize| {
            let mut entries = worker.entries.iter();
            entries.position(|entry| entry.place() == cache_entry)
        };
        let tokens = match tokens {
            Ok(tokens) => tokens,
            Err(error) if error.is_fatal() => return Err(error),
            Err(error) => {
                for (cache_entry, _) in rows {
                    if let Some(at) = at(self, *cache_entry) {
                        let entry = self.take_out(at);
                        entry.fail(EngineError::from(error.clone()).into());
                    }
                }
                return Ok(());
            }
        };
        // Of one that has left, or runs again, nobody gets a token.
        let told = rows
            .iter()
            .zip(&tokens)
            .filter(|((cache_entry, _), token)| {
                matches!(token, Ok(Some(_))) && at(self, *cache_entry).is_some()
            });
        let told = told.map(|((_, forced), _)| 1 + forced.len()).sum();
        self.observer.tokens(&mut self.runner, told);
        // An answer that its forced tokens complete ends before the token that was chosen after them.
        let mut whole = Vec::new();
        for ((cache_entry, _), token) in rows.iter().zip(&tokens) {
            if let (Some(at), Ok(Some(token))) = (at(self, *cache_entry), token) {
                let entry = &mut self.entries[at];
                if entry.is_whole() {
                    whole.push(entry.id());
                } else {
                    entry.show_guide(*token);
                }
            }
        }
        for ((cache_entry, forced), token) in rows.iter().zip(tokens) {
            let Some(at) = at(self, *cache_entry) else {
                continue;
            };
            let id = self.entries[at].id();
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
                    self.entries[at].repeats();
                }
                Err(error) => fail(self.take_out(at), error)?,
            }
        }
        Ok(())
    }

    fn end(&mut self, id: u64, reason: FinishReason) {
        if let Some(at) = self.entries.iter().position(|entry| entry.id() == id) {
            let at_once = self.entries.len();
            self.take_out(at).finish(reason, at_once);
        }
    }

    /// A token of an entry has come; it may have ended before.
    pub(super) fn take(&mut self, id: u64, token: Taken) -> Result<(), RunError> {
        let Some(at) = self.entries.iter().position(|entry| entry.id() == id) else {
            return Ok(());
        };
        let entry = &mut self.entries[at];
        let cache_entry = entry.place();
        let full = self.runner.len_of(cache_entry) >= self.runner.capacity_of(cache_entry);
        let scored = match token {
            Taken::Chosen(_) => self.runner.scored(cache_entry),
            Taken::Forced(_) => &[],
        };
        match entry.take(token, scored, full) {
            Ok(After::More) => {}
            Ok(After::Instead(token)) => {
                // Nothing is ahead of an entry that catches up.
                self.runner.turn_to(cache_entry);
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
