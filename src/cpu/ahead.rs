//! A step that was launched before the tokens of the one before it were taken, as a GPU has them: it has run, its cache is
//! written, and the host does not know of it yet.
//!
//! A CPU gains nothing by it. It is here so that what has to be right about such steps is seen where there is no GPU.

use super::Cpu;
use super::core::{Conversation, Guide};
use crate::executor::Behind;
use crate::tape::ExecuteError;

/// Where entries stand.
pub(super) type Standing = Vec<(usize, Conversation)>;

/// What a step has made of its conversations.
#[derive(Debug)]
pub(super) struct Ahead {
    after: Standing,
    ran: Result<(), ExecuteError>,
}

impl Ahead {
    /// Whether it is of these entries, maybe among others.
    pub(super) fn serves(&self, entries: &[usize]) -> bool {
        entries.iter().all(|entry| self.is_of(*entry))
    }

    fn is_of(&self, entry: usize) -> bool {
        self.after.iter().any(|(of, _)| *of == entry)
    }

    /// Its tokens are taken; others than these entries stay where they were.
    pub(super) fn take(
        self,
        conversations: &mut [Conversation],
        entries: &[usize],
    ) -> Result<(), ExecuteError> {
        for (entry, after) in self.after {
            if !entries.contains(&entry) {
                continue;
            }
            let conversation = &mut conversations[entry];
            // A mask that has come since is of the token that it could not choose.
            let guide = std::mem::take(&mut conversation.guide);
            let waits = after.waits;
            *conversation = after;
            if waits {
                conversation.guide = guide;
            }
        }
        self.ran
    }
}

impl Cpu {
    /// Steps are launched ahead from now on.
    #[must_use]
    pub fn launching_ahead(self, launches_ahead: bool) -> Self {
        Self {
            launches_ahead,
            ..self
        }
    }

    /// What an entry stands at is another than a step has begun with that is ahead.
    pub(super) fn forget_ahead_of(&mut self, entry: usize) {
        self.ahead.take_if(|ahead| ahead.is_of(entry));
        self.left_step.take_if(|step| step.entries.contains(&entry));
    }

    /// What bounds an entry's next choice; a step that is ahead began without it.
    pub(super) fn bind(&mut self, entry: usize, guide: Guide) {
        let is_free = |guide: &Guide| matches!(guide, Guide::Free);
        if is_free(&self.core.conversations[entry].guide) != is_free(&guide) {
            self.forget_ahead_of(entry);
        }
        self.core.conversations[entry].guide = guide;
    }

    /// Where entries stand.
    pub(super) fn standing(&self, entries: &[usize]) -> Standing {
        let conversations = &self.core.conversations;
        let of = |entry: &usize| (*entry, conversations[*entry].clone());
        entries.iter().map(of).collect()
    }

    /// Entries stand there again.
    pub(super) fn stand(&mut self, standing: Standing) {
        for (entry, conversation) in standing {
            self.core.conversations[entry] = conversation;
        }
    }

    /// Runs a step whose tokens are taken later. One that does not fit is not launched.
    ///
    /// # Errors
    /// If it is refused, which is known at once.
    pub(super) fn launch_behind(
        &mut self,
        Behind {
            tape,
            entries,
            preempts,
            ..
        }: Behind<'_>,
    ) -> Result<(), ExecuteError> {
        if preempts.is_some_and(|preempts| preempts()) {
            return Ok(());
        }
        let fits = |entry: &usize| self.fits(*entry, 1, tape.rows).is_ok();
        if !entries.iter().all(fits) {
            return Ok(());
        }
        let (before, active) = (self.standing(entries), self.core.entry);
        let ran = self.run_rows(tape, entries, &[], None).map(drop);
        let after = self.standing(entries);
        self.stand(before);
        self.core.entry = active;
        if is_refused(&ran) {
            return ran;
        }
        self.ahead = Some(Ahead { after, ran });
        Ok(())
    }
}

/// Whether nothing came of a step: logits that are not finite are of one row.
pub(super) fn is_refused(ran: &Result<(), ExecuteError>) -> bool {
    let failed = ran.as_ref().err();
    failed.is_some_and(|error| !matches!(error, ExecuteError::NonFinite { .. }))
}
