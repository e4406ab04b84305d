//! Slices of prompts: how many rows are prefilled at once, and what preempts them.
//!
//! The images of a slice are encoded before it, in `encoding`.

use std::time::{Duration, Instant};

use super::encoding::{Shown, shown, unencoded};
use super::preemption::Preemption;
use super::state::Worker;
use crate::engine::caller::request::Priority;
use crate::engine::generation::state::Token;
use crate::engine::observe::progress::Phase;
use crate::executor::Pass;
use crate::journal;
use crate::kv::Family;
use crate::runner::RunError;
use crate::tape::Ending;
use crate::telemetry::Proposals;

impl Worker<'_> {
    /// Prefills a slice of the prompt in a slot, and waits for its end. `others` is the number of other generations, and
    /// `decoding` says that some of them wait for steps.
    ///
    /// The slice is preempted between two half layers, and continues there later, in these cases: a request arrives that
    /// comes before it, the others have waited for as long as they may have to, or the request is cancelled. A `realtime`
    /// prompt without others is prefilled in whole chunks.
    ///
    /// A step that is ahead is preempted. If it has come too far for that, the slice is launched behind it before its
    /// tokens are published.
    pub(super) fn prefill(
        &mut self,
        slot: usize,
        others: usize,
        decoding: bool,
    ) -> Result<(), RunError> {
        let (share, chunk) = (self.shared.limits().prefill, self.runner.prefill_chunk());
        let Some(generation) = self.slots.get(slot) else {
            return Ok(());
        };
        let (family, remaining) = generation.remaining();
        if family == Family::Step {
            self.settle()?;
            self.observer.interrupt();
            return self.repeat_steps(slot, decoding);
        }
        let (rows, before) = generation.preempted_slice().unwrap_or_else(|| {
            let rows = match (others, generation.priority()) {
                (0, Priority::Realtime) => chunk,
                _ => self.slices.rows(share, chunk),
            };
            let rows = self.runner.run_length(slot, remaining.len(), rows);
            (rows, Duration::ZERO)
        });
        if let Some(picture) = unencoded(generation.pictures(), &remaining[..rows]) {
            return self.encode(slot, &picture, (others, decoding));
        }
        let last = generation.ends_with(rows);
        let ending = if last { Ending::Token } else { Ending::Kv };
        let slice = remaining[..rows].to_vec();
        let shown = shown(generation.pictures(), &slice);
        let is_step_preempted = match self.runner.preempt_step(&self.ahead) {
            Err(error) if error.is_fatal() => return Err(error),
            // A step that could not be preempted runs again.
            preempted => preempted.unwrap_or_default(),
        };
        if !is_step_preempted {
            self.runner.turn_to(slot);
            // Images are not launched behind a step.
            let started = match shown[..] {
                [] => self.runner.start(&slice, ending),
                _ => Ok(()),
            };
            if let Err(error) = started {
                return self.fail(slot, error);
            }
            self.settle()?;
        }
        // The time of the slice does not count as the time of a step.
        self.observer.interrupt();
        self.shared.progress.enter(Phase::Prompt);
        let waiting = self.least_waiting_for(slot);
        // The step that was ahead may have ended this generation.
        let Some(generation) = self.slots.get_mut(slot) else {
            return Ok(());
        };
        self.runner.turn_to(slot);
        let (request, begun) = (generation.request(), Instant::now());
        let remaining = generation.prompt().len() - generation.prefilled();
        let preemption = Preemption {
            queue: self.queue,
            prefill_times: &self.prefill_times,
            request,
            remaining,
            is_last: last,
            // The smallest slice can take longer than a slice may.
            until: (others > 0).then(|| begun + share.slice),
            slice: share.slice,
        };
        let mut is_preempted = || preemption.is_due();
        let images: Vec<_> = shown.iter().map(Shown::embeddings).collect();
        let ran = (self.runner).prefill_images(&slice, &images, ending, Some(&mut is_preempted));
        let pass = match ran.and_then(|pass| self.runner.finish().map(|()| pass)) {
            Ok(pass) => pass,
            Err(error) => return self.fail(slot, error),
        };
        let took = begun.elapsed();
        self.prefill_times.add(&request.client, took, waiting);
        let user = request.client.user;
        self.slices.owe_steps(share, user, took, decoding);
        self.shared.progress.advance();
        let meter = &self.shared.board.energy;
        generation.add_energy(meter.since(&mut self.energy, Instant::now()));
        if pass == Pass::Preempted {
            generation.preempt_slice(rows, before + took);
            return Ok(());
        }
        let whole = self.slices.rows(share, chunk);
        (self.slices).prefilled(generation.prefilled(), rows, whole, before + took);
        self.shared.totals.prefill.record(rows, before + took);
        let prefilled = self.runner.len();
        generation.advance_to(prefilled);
        let (request, all) = (generation.request(), generation.prompt().len());
        let shows_images = !generation.pictures().is_empty();
        journal::prompt_read(request.id, request.client.user, prefilled, all);
        if last {
            let token = self.runner.token();
            self.observer
                .tokens(&mut self.runner, 1, Proposals::default());
            if shows_images {
                self.shrink_embeddings();
            }
            self.take(slot, Token::Chosen(token), 0)?;
        }
        Ok(())
    }

    /// Prefills tokens that an earlier answer had generated by steps: as steps again, so that the cache gets the same bits.
    fn repeat_steps(&mut self, slot: usize, decoding: bool) -> Result<(), RunError> {
        let (waiting, most) = (self.least_waiting_for(slot), self.step_rows());
        let Some(generation) = self.slots.get_mut(slot) else {
            return Ok(());
        };
        self.shared.progress.enter(Phase::Prompt);
        let (_, remaining) = generation.remaining();
        let rows = remaining.len().min(most);
        let sampling = generation.request().options.sampling;
        let begun = Instant::now();
        let said = &remaining[..rows];
        if let Err(error) = (self.runner).read_said(slot, said, sampling, generation.prompt()) {
            return self.fail(slot, error);
        }
        let (share, took) = (self.shared.limits().prefill, begun.elapsed());
        let client = &generation.request().client;
        self.prefill_times.add(client, took, waiting);
        self.shared.totals.prefill.record(rows, took);
        self.slices.stepped(took);
        self.slices.owe_steps(share, client.user, took, decoding);
        generation.advance_to(self.runner.len_of(slot));
        self.share_energy(&[slot]);
        self.shared.progress.advance();
        self.guide(slot).map(drop)
    }
}
