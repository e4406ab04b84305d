//! Requests that arrive while a step runs, or while the device makes guesses for it: whether one of them preempts that.

use std::cell::Cell;
use std::time::Instant;

use crate::engine::caller::request::Priority;
use crate::engine::intake::queue::Queue;
use crate::engine::intake::request::Request;
use crate::engine::schedule::policy::{self, Candidate, Stage};
use crate::engine::schedule::prefill_time::PrefillTimes;
use crate::engine::schedule::slices::{Share, Slices};

/// What decides whether a request that arrives preempts the running step.
pub(super) struct Arrivals<'a> {
    pub(super) queue: &'a Queue,
    pub(super) share: Share,
    /// The most rows of a step, and whether one of them is free.
    pub(super) rows: usize,
    pub(super) has_row: bool,
    pub(super) chunk: usize,
    pub(super) slices: &'a Slices,
    pub(super) prefill_times: &'a PrefillTimes,
    /// Whether a request for which there is a row has arrived. The queue reports each arrival once.
    pub(super) has_arrival: Cell<bool>,
}

impl Arrivals<'_> {
    /// Waits until `until`, or until a request arrives whose prompt is prefilled before a step of `all`. Returns whether
    /// one has.
    pub(super) fn preempts_running(&self, all: &[Candidate], until: Instant) -> bool {
        let steps_due = self.slices.are_steps_due();
        self.queue.wait_for_arrival(until, |request| {
            self.has_arrival
                .set(self.has_arrival.get() || gets_row(request, self.has_row));
            let (user, remaining) = (request.client.user, request.wanted().1.tokens.len());
            let one = Candidate {
                slot: usize::MAX,
                user,
                priority: request.options.priority,
                stage: Stage::Prefill,
                prefill_time: self.prefill_times.of(&request.client),
                remaining,
                passes: (self.slices).passes(self.share, self.chunk, user, remaining),
            };
            !self.queue.held().suspends(one.priority)
                && policy::preempts_step(all, one, self.rows, steps_due, self.share.slice)
        })
    }

    /// Whether a request has arrived that is prefilled right after the running step at the latest: then no step is launched
    /// behind it.
    pub(super) fn preempts_next(&self) -> bool {
        let has_row = self.has_row;
        self.has_arrival.get() || (self.queue).has_arrival(|request| gets_row(request, has_row))
    }
}

/// The condition under which an arriving request ends the passes that make guesses for a step, and a draft model's slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interruption<'a> {
    pub(super) queue: &'a Queue,
    /// Whether a row of a step is free.
    pub(super) has_row: bool,
    /// The priority of the most urgent generation of the step.
    pub(super) priority: Priority,
}

impl Interruption<'_> {
    /// Whether a request has arrived that is prefilled right after the step at the latest, and that is no less urgent. The step
    /// notices the same arrival.
    pub(super) fn is_due(self) -> bool {
        self.queue.has_unseen_arrival(|request| {
            let priority = request.options.priority;
            gets_row(request, self.has_row)
                && priority >= self.priority
                && !self.queue.held().suspends(priority)
        })
    }
}

/// Whether a request gets a row of a step at once. `has_row` says that one is free.
fn gets_row(request: &Request, has_row: bool) -> bool {
    has_row || request.options.priority == Priority::Realtime
}
