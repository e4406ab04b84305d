//! Who comes while a step runs: whether it is left for them, and whether nothing is launched behind it.

use std::cell::Cell;
use std::time::Instant;

use crate::engine::caller::request::Priority;
use crate::engine::intake::inbox::Inbox;
use crate::engine::intake::request::Request;
use crate::engine::schedule::policy::{self, Candidate, Stage};
use crate::engine::schedule::prefill_time::PrefillTimes;
use crate::engine::schedule::slices::Slices;

/// What is asked of each who comes.
pub(super) struct Arrivals<'a> {
    pub(super) inbox: &'a Inbox,
    /// Of a step, and whether one of them is free.
    pub(super) rows: usize,
    pub(super) has_row: bool,
    pub(super) chunk: usize,
    pub(super) slices: &'a Slices,
    pub(super) prefill_times: &'a PrefillTimes,
    /// The queue tells of each but once.
    pub(super) has_arrival: Cell<bool>,
}

impl Arrivals<'_> {
    /// Waits until then, or until somebody comes who is read before a step of `all`.
    pub(super) fn leave(&self, all: &[Candidate], until: Instant) -> bool {
        let share = self.inbox.limits().prefill;
        let owed = self.slices.owed();
        self.inbox.wait_for_arrival(until, |request| {
            self.has_arrival
                .set(self.has_arrival.get() || self.is_read(request));
            let (user, remaining) = (request.client.user, request.wanted().1.tokens.len());
            let one = Candidate {
                id: u64::MAX,
                user,
                priority: request.options.priority,
                stage: Stage::Prefill,
                prefill_time: self.prefill_times.of(&request.client),
                remaining,
                passes: self.slices.passes(share, self.chunk, user, remaining),
            };
            !self.inbox.held().rests(one.priority)
                && policy::preempts_step(all, one, self.rows, owed, share.slice)
        })
    }

    /// Whether somebody has come who is to be read before another step, or after the one that runs at the latest.
    pub(super) fn preempt(&self) -> bool {
        self.has_arrival.get() || self.inbox.has_arrival(|request| self.is_read(request))
    }

    /// Whether there is a row for it.
    fn is_read(&self, request: &Request) -> bool {
        self.has_row || request.options.priority == Priority::Realtime
    }
}
