//! Steps that are launched ahead, as on a GPU: a step has run and written the cache, and its tokens have not been taken.
//!
//! A CPU is not faster that way. The tests of this order of events need no GPU.

use super::Cpu;
use super::core::Guide;
use super::launched::{Ahead, Snapshot};
use crate::executor::{Behind, ExecuteError};

impl Cpu {
    /// Sets whether steps are launched ahead.
    #[must_use]
    pub fn launching_ahead(self, launches_ahead: bool) -> Self {
        Self {
            launches_ahead,
            ..self
        }
    }

    /// Discards the step that is ahead or preempted if it has a row for a slot, whose state has changed.
    pub(super) fn discard_ahead_of(&mut self, slot: usize) {
        self.ahead.take_if(|ahead| ahead.has(slot));
        self.preempted_step
            .take_if(|step| step.slots.contains(&slot));
    }

    /// Whether the step that is ahead or preempted has a row for a slot.
    pub(super) fn is_launched(&self, slot: usize) -> bool {
        let ahead = self.ahead.as_ref().is_some_and(|ahead| ahead.has(slot));
        let preempted = self.preempted_step.as_ref();
        ahead || preempted.is_some_and(|step| step.slots.contains(&slot))
    }

    /// Sets the mask of a slot's next token. A step that is ahead began with the previous one.
    pub(super) fn bind(&mut self, slot: usize, guide: Guide) {
        let is_free = |guide: &Guide| matches!(guide, Guide::Free);
        if is_free(&self.core.conversations[slot].guide) != is_free(&guide) {
            self.discard_ahead_of(slot);
        }
        self.core.conversations[slot].guide = guide;
        self.core.conversations[slot].guesses.clear();
    }

    pub(super) fn snapshot(&self, slots: &[usize]) -> Snapshot {
        let conversations = &self.core.conversations;
        let of = |slot: &usize| (*slot, conversations[*slot].clone());
        slots.iter().map(of).collect()
    }

    pub(super) fn restore(&mut self, snapshot: Snapshot) {
        for (slot, conversation) in snapshot {
            self.core.conversations[slot] = conversation;
        }
    }

    /// Runs a step whose tokens are taken later, unless it exceeds the context.
    ///
    /// # Errors
    /// If the step is refused.
    pub(super) fn launch_behind(
        &mut self,
        Behind {
            tape,
            slots,
            preempts,
            ..
        }: Behind<'_>,
    ) -> Result<(), ExecuteError> {
        if preempts.is_some_and(|preempts| preempts()) {
            return Ok(());
        }
        let fits = |slot: &usize| self.fits(*slot, 1, tape.rows).is_ok();
        if !slots.iter().all(fits) {
            return Ok(());
        }
        let (before, active) = (self.snapshot(slots), self.core.slot);
        let ran = self.run_rows(tape, slots, &[], None).map(drop);
        let after = self.snapshot(slots);
        self.restore(before);
        self.core.slot = active;
        if is_refused(&ran) {
            return ran;
        }
        self.ahead = Some(Ahead { after, ran });
        Ok(())
    }
}

/// Whether a step has no result at all. Logits that are not finite concern a single row.
pub(super) fn is_refused(ran: &Result<(), ExecuteError>) -> bool {
    let failed = ran.as_ref().err();
    failed.is_some_and(|error| !matches!(error, ExecuteError::NonFinite { .. }))
}
