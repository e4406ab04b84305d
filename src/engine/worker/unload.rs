//! When the engine thread releases the weights: on a call, after a time without a request, or because memory is short.
//!
//! Weights are released only while no request runs or waits. `dormant` is the thread without them.

use std::time::Instant;

use tokio::sync::oneshot;

use super::state::Worker;
use crate::engine::caller::request::Refusal;
use crate::runner::RunError;

/// Why the weights are released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// There was no request for the configured time.
    Unused,
    /// An operator has called.
    Released,
    /// The system lacks memory.
    Pressure,
}

impl Cause {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Unused => "no request for idle.unload_seconds",
            Self::Released => "an operator's call",
            Self::Pressure => "the system lacks memory",
        }
    }
}

/// A release of the weights that is due.
#[derive(Debug)]
pub(super) struct Unload {
    pub(super) cause: Cause,
    /// Whom to tell.
    reply: Option<oneshot::Sender<Result<(), Refusal>>>,
}

impl Unload {
    pub(super) fn released(reply: oneshot::Sender<Result<(), Refusal>>) -> Self {
        Self {
            cause: Cause::Released,
            reply: Some(reply),
        }
    }

    pub(super) const fn of(cause: Cause) -> Self {
        Self { cause, reply: None }
    }

    /// Tells the caller, if there is one, what has become of it.
    pub(super) fn answer(self, result: Result<(), Refusal>) {
        if let Some(reply) = self.reply {
            // The caller may have gone.
            drop(reply.send(result));
        }
    }
}

impl<'a> Worker<'a> {
    /// Returns when the weights are to be released, unless a request comes before.
    pub(super) fn unload_due(&mut self) -> Option<Instant> {
        let after = self.shared.unload_after()?;
        let now = Instant::now();
        let since = *self.idle_since.get_or_insert(now);
        since.checked_add(after)
    }

    /// Returns why the weights are to be released now, if they are and nothing needs them. The pages of sessions are on the
    /// disk then, as far as they belong there.
    pub(super) fn take_unload(&mut self) -> Result<Option<Unload>, RunError> {
        if !self.has_nothing_to_do() {
            self.refuse_unload();
            return Ok(None);
        }
        let now = Instant::now();
        if self.unload.is_none() && self.unload_due().is_some_and(|due| due <= now) {
            self.unload = Some(Unload::of(Cause::Unused));
        }
        if self.unload.is_none() {
            return Ok(None);
        }
        if self.queue.is_quiet() {
            self.save_before_release()?;
        }
        if self.queue.is_quiet() {
            return Ok(self.unload.take());
        }
        // A request that a hold keeps off the device waits, too. The time begins again.
        self.idle_since = Some(now);
        self.refuse_unload();
        Ok(None)
    }

    fn refuse_unload(&mut self) {
        if let Some(unload) = self.unload.take() {
            let requests = self.shared.requests.count().max(1);
            unload.answer(Err(Refusal::Active { requests }));
        }
    }
}
