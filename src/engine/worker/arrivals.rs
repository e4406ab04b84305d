//! Requests that arrive while a step runs: whether the step is preempted for one of them.

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
                .set(self.has_arrival.get() || self.gets_row(request));
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
        self.has_arrival.get() || self.queue.has_arrival(|request| self.gets_row(request))
    }

    fn gets_row(&self, request: &Request) -> bool {
        self.has_row || request.options.priority == Priority::Realtime
    }
}
