//! Slices of prompts: how much is read at once, for whom that is left, and what it counts for.

use std::time::{Duration, Instant};

use super::{Worker, fail};
use crate::engine::caller::request::Priority;
use crate::engine::generation::state::Taken;
use crate::engine::intake::request::Request;
use crate::engine::observe::progress::Phase;
use crate::engine::schedule::policy::{self, PrefillDemand};
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
        let Some(generation) = self.generation(id) else {
            return Ok(());
        };
        let (family, remaining) = generation.remaining();
        if family == Family::Step {
            self.settle()?;
            self.observer.interrupted();
            return self.read_said(id, answers);
        }
        let (rows, before) = generation.slice().unwrap_or_else(|| {
            let rows = match (others, generation.priority()) {
                (0, Priority::Realtime) => chunk,
                _ => self.slices.rows(share, chunk),
            };
            (rows.min(remaining.len()), Duration::ZERO)
        });
        let last = generation.reads_last(rows);
        let ending = if last { Ending::Token } else { Ending::Kv };
        let (slot, slice) = (generation.slot(), remaining[..rows].to_vec());
        let is_left = match self.runner.leave_step(&self.ahead) {
            Err(error) if error.is_fatal() => return Err(error),
            // It runs anew.
            left => left.unwrap_or_default(),
        };
        if !is_left {
            self.runner.turn_to(slot);
            if let Err(error) = self.runner.start(&slice, ending) {
                let failed = self.position(id).map(|at| self.take_out(at));
                return failed.map_or(Ok(()), |generation| fail(generation, error));
            }
            self.settle()?;
        }
        // The slice is no part of a step.
        self.observer.interrupted();
        inbox.progress().enter(Phase::Prompt);
        let Some(at) = self.position(id) else {
            return Ok(());
        };
        self.runner.turn_to(slot);
        let generation = &mut self.generations[at];
        let (request, begun) = (generation.request(), Instant::now());
        let prefill_times = &self.prefill_times;
        let asks = |request: &Request, remaining| PrefillDemand {
            user: request.client.user,
            priority: request.options.priority,
            prefill_time: prefill_times.of(&request.client).user,
            remaining,
        };
        let reads = asks(request, generation.prompt().len() - generation.read());
        let comes = |request: &Request| {
            let (_, wanted) = request.wanted();
            policy::preempts_slice(asks(request, wanted.tokens.len()), reads, last, share.slice)
        };
        let mut preempts = || {
            // As few rows as are worth it may take longer than a slice is to.
            let is_over = others > 0 && begun.elapsed() >= share.slice;
            is_over
                || request.ends().is_some()
                || inbox.held().rests(reads.priority)
                || inbox.has_arrival(comes)
        };
        let ran = self
            .runner
            .prefill_until(&slice, ending, Some(&mut preempts));
        let pass = match ran.and_then(|pass| self.runner.finish().map(|()| pass)) {
            Ok(pass) => pass,
            Err(error) => {
                let generation = self.take_out(at);
                return fail(generation, error);
            }
        };
        let took = begun.elapsed();
        self.prefill_times.add(&request.client, took);
        self.slices.owe(share, reads.user, took, answers);
        inbox.progress().advance();
        if pass == Pass::Preempted {
            generation.left(rows, before + took);
            return Ok(());
        }
        let whole = self.slices.rows(share, chunk);
        self.slices
            .read(generation.read(), rows, whole, before + took);
        let read = self.runner.len();
        generation.advance(read);
        let (request, all) = (generation.request(), generation.prompt().len());
        journal::prompt_read(request.id, request.client.user, read, all);
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
        let generation = &mut self.generations[at];
        let (_, remaining) = generation.remaining();
        let rows = remaining.len().min(self.runner.rows());
        let (slot, sampling) = (generation.slot(), generation.request().options.sampling);
        let begun = Instant::now();
        let said = &remaining[..rows];
        if let Err(error) = self
            .runner
            .read_said(slot, said, sampling, generation.prompt())
        {
            let generation = self.take_out(at);
            return fail(generation, error);
        }
        let (share, took) = (self.inbox.limits().prefill, begun.elapsed());
        let client = &generation.request().client;
        self.prefill_times.add(client, took);
        self.slices.stepped(took);
        self.slices.owe(share, client.user, took, answers);
        generation.advance(self.runner.len_of(slot));
        self.inbox.progress().advance();
        self.bound(at).map(drop)
    }
}
