//! Steps and slices of prompts: what runs, and who is told what came of it.

use std::time::Instant;

use super::{Worker, fail};
use crate::engine::entry::{After, Entry};
use crate::engine::runner::RunError;
use crate::engine::schedule::{self, Next, Stage, Standing};
use crate::engine::{Phase, Priority, RequestError, Work};
use crate::journal;
use crate::tape::Ending;

impl Worker<'_> {
    /// Runs what is next of those that have joined.
    pub(super) fn advance(&mut self) -> Result<(), RunError> {
        let mut all = self.standings();
        if self.inbox.is_held() {
            all.retain(|one| one.priority != Priority::Background);
        }
        let next = schedule::next(&all, self.runner.rows(), self.slices.owed());
        let rows = if let Next::Step(ids) = &next {
            ids.len()
        } else {
            0
        };
        self.show(&all, rows);
        match next {
            Next::Read { id, others } => self.read(id, others),
            Next::Step(ids) => {
                // Nobody waits who could join, or this would not be run.
                let same = ids.len() == all.len() && self.replacement.is_none();
                let wants = |id: &u64| self.entry(*id).is_some_and(Entry::wants_more);
                let more = same && ids.iter().all(wants);
                self.step(&ids, more)
            }
            Next::Rest => {
                self.settle()?;
                self.inbox.rest();
                Ok(())
            }
        }
    }

    /// Shows whom it answers: of those that may get on so many step together.
    pub(super) fn show(&self, all: &[Standing], rows: usize) {
        let active = schedule::active(all, self.runner.rows());
        let reading = active.iter().filter(|one| one.stage == Stage::Reading);
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let everyone = self.entries.iter().chain(&self.displaced);
        let everyone: Vec<_> = everyone.map(Entry::standing).collect();
        let of = |priority| {
            everyone
                .iter()
                .filter(|one| one.priority == priority)
                .count()
        };
        let mut live = self.inbox.live();
        live.work = Work {
            rows: if rows == 0 && active.iter().any(|one| one.stage == Stage::Answering) {
                live.work.rows
            } else {
                count(rows)
            },
            reading: count(reading.count()),
            suspended: count(everyone.len() - active.len()),
            of: Priority::ALL.map(of).map(count),
        };
    }

    fn entry(&self, id: u64) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.id() == id)
    }

    /// Reads a slice of an entry's prompt; all that fits a device at once where nobody else could go on meanwhile.
    fn read(&mut self, id: u64, others: usize) -> Result<(), RunError> {
        self.settle()?;
        self.observer.interrupted();
        self.inbox.progress().enter(Phase::Prompt);
        let Some(at) = self.entries.iter().position(|entry| entry.id() == id) else {
            return Ok(());
        };
        let entry = &mut self.entries[at];
        let (share, chunk) = (self.inbox.limits().prefill, self.runner.prefill_chunk());
        let rows = match others {
            0 => chunk,
            _ => self.slices.rows(share, chunk),
        };
        let unread = entry.unread();
        let rows = rows.min(unread.len());
        let last = rows == unread.len();
        let ending = if last { Ending::Token } else { Ending::Kv };
        self.runner.turn_to(entry.region());
        let begun = Instant::now();
        if let Err(error) = self.runner.prefill(&unread[..rows], ending) {
            let entry = self.take_out(at);
            return fail(entry, error);
        }
        self.slices
            .read(share, rows, begun.elapsed(), last, others > 0);
        let read = self.runner.len();
        entry.advance(read);
        let (turn, all) = (entry.turn(), entry.prompt().len());
        journal::prompt_read(turn.id, turn.client.user, read, all);
        self.inbox.progress().advance();
        if last {
            let token = self.runner.token();
            self.observer.tokens(&mut self.runner, 1);
            self.take(id, token);
        }
        Ok(())
    }

    /// Runs a step of these entries, or, where another was launched ahead, that one.
    fn step(&mut self, ids: &[u64], more: bool) -> Result<(), RunError> {
        let of = |id: &u64| self.entry(*id).map(Entry::region);
        let mut regions: Vec<usize> = ids.iter().filter_map(of).collect();
        // A region keeps its row, whoever else comes or goes, as far as may be.
        regions.sort_unstable();
        if self.runner.is_ahead() && self.ahead != regions {
            return self.settle();
        }
        self.inbox.progress().enter(Phase::Answer);
        for entry in &mut self.entries {
            if regions.contains(&entry.region()) {
                entry.steps(self.runner.step_bytes_of(entry.region()));
            }
        }
        if let [region] = regions[..]
            && self.observer.wants_times()
        {
            self.runner.turn_to(region);
            let token = self.observer.time(&mut self.runner);
            return self.stepped(&regions, token.map(|token| vec![Ok(token)]));
        }
        self.run(regions, more)
    }

    /// Takes the tokens of a step that was launched ahead: who has left meanwhile loses what is its own, and the others go
    /// on from there.
    pub(super) fn settle(&mut self) -> Result<(), RunError> {
        if !self.runner.is_ahead() {
            return Ok(());
        }
        let regions = std::mem::take(&mut self.ahead);
        self.run(regions, false)
    }

    fn run(&mut self, regions: Vec<usize>, more: bool) -> Result<(), RunError> {
        let begun = Instant::now();
        let tokens = self.runner.step_each(&regions, more);
        self.slices.stepped(begun.elapsed());
        let stepped = self.stepped(&regions, tokens);
        self.ahead = regions;
        stepped
    }

    /// Tells each entry of a step its token; those that have ended are told nothing.
    fn stepped(
        &mut self,
        regions: &[usize],
        tokens: Result<Vec<Result<u32, RunError>>, RunError>,
    ) -> Result<(), RunError> {
        let at = |worker: &Self, region: usize| {
            let mut entries = worker.entries.iter();
            entries.position(|entry| entry.region() == region)
        };
        let tokens = match tokens {
            Ok(tokens) => tokens,
            Err(error) if error.is_fatal() => return Err(error),
            Err(error) => {
                for region in regions {
                    if let Some(at) = at(self, *region) {
                        let entry = self.take_out(at);
                        entry.fail(RequestError::EngineFailed(error.to_string()));
                    }
                }
                return Ok(());
            }
        };
        self.observer.tokens(&mut self.runner, regions.len());
        for (region, token) in regions.iter().zip(tokens) {
            let Some(at) = at(self, *region) else {
                continue;
            };
            match token {
                Ok(token) => self.take(self.entries[at].id(), token),
                Err(error) => fail(self.take_out(at), error)?,
            }
        }
        Ok(())
    }

    /// A token of an entry has come.
    fn take(&mut self, id: u64, token: u32) {
        let Some(at) = self.entries.iter().position(|entry| entry.id() == id) else {
            return;
        };
        let entry = &mut self.entries[at];
        let region = entry.region();
        let full = self.runner.len_of(region) >= self.runner.context();
        match entry.take(token, full) {
            After::More => {}
            After::Instead(token) => {
                // Nothing is ahead of an entry that catches up.
                self.runner.turn_to(region);
                self.runner.post(token);
            }
            After::End(reason) => {
                let at_once = self.entries.len();
                self.take_out(at).finish(reason, at_once);
            }
        }
    }
}
