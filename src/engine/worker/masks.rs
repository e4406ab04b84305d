//! What answers may say next is computed by the processes of their grammars, for all answers at once, while the next step runs.
//!
//! What must come, or may, without a look at the vocabulary is known within microseconds. For the rest the executor has a promise:
//! a step that finds the mask uses it, and a step that does not repeats the row. Neither changes an answer. An answer whose mask
//! takes long has no row until the mask is there.

use super::Worker;
use crate::engine::caller::request::RequestError;
use crate::engine::generation::state::{Follows, Generation};
use crate::runner::RunError;

impl Worker<'_> {
    /// Says what an entry's next token may be, before it is chosen. Returns whether it goes on; it does not if nothing may.
    pub(super) fn bound(&mut self, at: usize) -> Result<bool, RunError> {
        let vocabulary = self.runner.vocabulary();
        let generation = &mut self.generations[at];
        if !generation.is_guided() {
            return Ok(true);
        }
        let slot = generation.slot();
        match generation.follows(vocabulary) {
            Ok(Follows::Anything) => self.runner.guide(slot, None)?,
            Ok(Follows::Allowed(mask)) => self.runner.guide(slot, Some(&mask))?,
            Ok(Follows::Later(promise)) => self.runner.guide_later(slot, promise)?,
            Err(error) => {
                self.take_out(at).fail(RequestError::Guide(error));
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether an answer must wait for its guide.
    pub(super) fn awaits_mask(&self, id: u64) -> bool {
        self.generation(id).is_some_and(Generation::awaits_mask)
    }

    /// Ends answers whose guide has failed, or has reported after their last step that they are complete.
    pub(super) fn end_guided(&mut self) {
        for at in (0..self.generations.len()).rev() {
            if let Some(error) = self.generations[at].never_goes_on() {
                self.take_out(at).fail(RequestError::Guide(error));
            } else if let Some(reason) = self.generations[at].ends_now() {
                let at_once = self.generations.len();
                self.take_out(at).finish(reason, at_once);
            }
        }
    }
}
