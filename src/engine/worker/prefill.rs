//! Slices of prompts: how much is read at once, for whom that is left, and what it counts for.

use std::time::{Duration, Instant};

use super::{Worker, fail};
use crate::engine::caller::request::Priority;
use crate::engine::generation::state::Taken;
use crate::engine::intake::turn::Turn;
use crate::engine::observe::progress::Phase;
use crate::engine::schedule::policy::{self, Asks};
use crate::executor::Pass;
use crate::journal;
use crate::kv::Family;
use crate::runner::RunError;
use crate::tape::Ending;

impl Worker<'_> {
    /// Reads a slice of an entry's prompt, and waits for its end; it is left between two half layers, to go on there later, if
    /// somebody comes who could be next, if others have waited for as long as they may have to, or its caller wants no more. All
    /// that fits a device at once is read where nobody more urgent can come, and nobody else could go on. Where a step is ahead it is
    /// left, or, if it has come too far for that, the slice begins behind it, before its tokens are told. `answers` says that
    /// somebody waits for steps meanwhile.
    pub(super) fn read(&mut self, id: u64, others: usize, answers: bool) -> Result<(), RunError> {
        let inbox = self.inbox;
        let (share, chunk) = (inbox.limits().prefill, self.runner.prefill_chunk());
        let Some(entry) = self.entry(id) else {
            return Ok(());
        };
        let (family, unread) = entry.unread();
        if family == Family::Step {
            self.settle()?;
            self.observer.interrupted();
            return self.read_said(id, answers);
        }
        let (rows, before) = entry.slice().unwrap_or_else(|| {
            let rows = match (others, entry.priority()) {
                (0, Priority::Realtime) => chunk,
                _ => self.slices.rows(share, chunk),
            };
            (rows.min(unread.len()), Duration::ZERO)
        });
        let last = entry.reads_last(rows);
        let ending = if last { Ending::Token } else { Ending::Kv };
        let (place, slice) = (entry.place(), unread[..rows].to_vec());
        let is_left = match self.runner.leave_step(&self.ahead) {
            Err(error) if error.is_fatal() => return Err(error),
            // It runs anew.
            left => left.unwrap_or_default(),
        };
        if !is_left {
            self.runner.turn_to(place);
            if let Err(error) = self.runner.start(&slice, ending) {
                let failed = self.position(id).map(|at| self.take_out(at));
                return failed.map_or(Ok(()), |entry| fail(entry, error));
            }
            self.settle()?;
        }
        // The slice is no part of a step.
        self.observer.interrupted();
        inbox.progress().enter(Phase::Prompt);
        let Some(at) = self.position(id) else {
            return Ok(());
        };
        self.runner.turn_to(place);
        let entry = &mut self.entries[at];
        let (turn, begun) = (entry.turn(), Instant::now());
        let service = &self.service;
        let asks = |turn: &Turn, unread| Asks {
            user: turn.client.user,
            priority: turn.options.priority,
            had: service.had(&turn.client).0,
            unread,
        };
        let reads = asks(turn, entry.prompt().len() - entry.read());
        let comes = |turn: &Turn| {
            let (_, wanted) = turn.wanted();
            policy::preempts(asks(turn, wanted.tokens.len()), reads, last, share.slice)
        };
        let mut preempts = || {
            // As few rows as are worth it may take longer than a slice is to.
            let is_over = others > 0 && begun.elapsed() >= share.slice;
            is_over
                || turn.ends().is_some()
                || inbox.held().rests(reads.priority)
                || inbox.has_come(comes)
        };
        let ran = self
            .runner
            .prefill_until(&slice, ending, Some(&mut preempts));
        let pass = match ran.and_then(|pass| self.runner.finish().map(|()| pass)) {
            Ok(pass) => pass,
            Err(error) => {
                let entry = self.take_out(at);
                return fail(entry, error);
            }
        };
        let took = begun.elapsed();
        self.service.serve(&turn.client, took);
        self.slices.owe(share, reads.user, took, answers);
        inbox.progress().advance();
        if pass == Pass::Preempted {
            entry.left(rows, before + took);
            return Ok(());
        }
        let whole = self.slices.rows(share, chunk);
        self.slices.read(entry.read(), rows, whole, before + took);
        let read = self.runner.len();
        entry.advance(read);
        let (turn, all) = (entry.turn(), entry.prompt().len());
        journal::prompt_read(turn.id, turn.client.user, read, all);
        if last {
            let token = self.runner.token();
            self.observer.tokens(&mut self.runner, 1);
            self.take(id, Taken::Chosen(token))?;
        }
        Ok(())
    }

    /// Runs tokens of an entry's prompt that it has said before, as many as a step has rows.
    fn read_said(&mut self, id: u64, answers: bool) -> Result<(), RunError> {
        let Some(at) = self.position(id) else {
            return Ok(());
        };
        self.inbox.progress().enter(Phase::Prompt);
        let entry = &mut self.entries[at];
        let (_, unread) = entry.unread();
        let rows = unread.len().min(self.runner.rows());
        let (cache_entry, sampling) = (entry.place(), entry.turn().options.sampling);
        let begun = Instant::now();
        let said = &unread[..rows];
        if let Err(error) = self
            .runner
            .read_said(cache_entry, said, sampling, entry.prompt())
        {
            let entry = self.take_out(at);
            return fail(entry, error);
        }
        let (share, took) = (self.inbox.limits().prefill, begun.elapsed());
        let client = &entry.turn().client;
        self.service.serve(client, took);
        self.slices.stepped(took);
        self.slices.owe(share, client.user, took, answers);
        entry.advance(self.runner.len_of(cache_entry));
        self.inbox.progress().advance();
        self.bound(at).map(drop)
    }
}
