//! The masks of guided answers, which limit the tokens that may be chosen next.
//!
//! Grammar processes compute the masks of all answers at once, while the next step runs. The executor gets a promise for
//! each mask: a step that finds the mask uses it, and a step that does not repeats the row, so the answer is the same. A guess
//! whose mask is late is not accepted. An answer whose mask takes long has no row until the mask is there.

use super::state::Worker;
use crate::engine::caller::request::RequestError;
use crate::engine::generation::state::{Allowed, Generation};
use crate::runner::RunError;

impl Worker<'_> {
    /// Gives the executor the mask of a slot's next token, before that token is chosen. Returns false if no token is allowed,
    /// which ends the answer.
    pub(super) fn guide(&mut self, slot: usize) -> Result<bool, RunError> {
        let vocabulary = self.runner.vocabulary();
        let Some(generation) = self.slots.get_mut(slot) else {
            return Ok(false);
        };
        if !generation.is_guided() {
            return Ok(true);
        }
        match generation.allowed_next(vocabulary) {
            Ok(Allowed::Any) => self.runner.guide(slot, None)?,
            Ok(Allowed::Mask(mask)) => self.runner.guide(slot, Some(&mask))?,
            Ok(Allowed::Pending(promise)) => self.runner.guide_later(slot, promise)?,
            Err(error) => {
                self.fail_request(slot, RequestError::Guide(error));
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the generation in a slot must wait for its mask.
    pub(super) fn awaits_mask(&self, slot: usize) -> bool {
        self.slots.get(slot).is_some_and(Generation::awaits_mask)
    }

    /// Ends answers whose guide has failed, or has reported after their last step that they are complete.
    pub(super) fn end_guided(&mut self) {
        for slot in self.slots.newest_first() {
            let Some(generation) = self.slots.get(slot) else {
                continue;
            };
            if let Some(error) = generation.guide_error() {
                self.fail_request(slot, RequestError::Guide(error));
            } else if let Some(reason) = generation.reported_end() {
                self.end(slot, reason);
            }
        }
    }

    pub(super) fn fail_request(&mut self, slot: usize, error: RequestError) {
        if let Some(generation) = self.take_out(slot) {
            generation.fail(error);
        }
    }
}
