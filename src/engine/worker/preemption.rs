//! What preempts a slice of a prompt, or the encoding of an image.

use std::time::{Duration, Instant};

use crate::engine::intake::queue::Queue;
use crate::engine::intake::request::Request;
use crate::engine::schedule::policy::{self, PrefillDemand};
use crate::engine::schedule::prefill_time::PrefillTimes;

/// The running slice, and what can preempt it.
pub(super) struct Preemption<'a> {
    pub(super) queue: &'a Queue,
    pub(super) prefill_times: &'a PrefillTimes,
    /// The request whose prompt runs.
    pub(super) request: &'a Request,
    /// The tokens of its prompt that are not in the cache.
    pub(super) remaining: usize,
    /// Whether the slice completes the prompt.
    pub(super) is_last: bool,
    /// When it has taken as long as it may, if others wait.
    pub(super) until: Option<Instant>,
    /// The longest time of a slice.
    pub(super) slice: Duration,
}

impl Preemption<'_> {
    /// Whether the slice is to be preempted: others have waited for as long as they may have to, its request has ended, or a
    /// request has arrived that comes before it.
    pub(super) fn is_due(&self) -> bool {
        let running = self.demand(self.request, self.remaining);
        let preempts = |arrival: &Request| {
            let (_, wanted) = arrival.wanted();
            let arrival = self.demand(arrival, wanted.tokens.len());
            policy::preempts_slice(arrival, running, self.is_last, self.slice)
        };
        self.until.is_some_and(|until| Instant::now() >= until)
            || self.request.ends().is_some()
            || self.queue.held().suspends(running.priority)
            || self.queue.has_arrival(preempts)
    }

    fn demand(&self, request: &Request, remaining: usize) -> PrefillDemand {
        PrefillDemand {
            user: request.client.user,
            priority: request.options.priority,
            prefill_time: self.prefill_times.of(&request.client).user,
            remaining,
        }
    }
}
