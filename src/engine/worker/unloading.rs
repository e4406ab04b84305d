//! When the engine thread releases the weights: on a call, after a time without a request, or because memory is short.
//!
//! Weights are released only while no request runs or waits. `dormant` is the thread without them.

use std::time::Instant;

use super::state::Worker;
use super::unload::{Cause, Unload};
use crate::engine::caller::request::Refusal;
use crate::runner::RunError;

impl Worker<'_> {
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
