//! What answers may say next is worked out on threads of its own, for all of them at once, while the next step runs.
//!
//! What must come, or may, without a look at the vocabulary is known at once. For the rest the executor has a promise: one
//! that waits has the mask before it chooses, and one that does not repeats the row. Which of both happens changes no answer.

use std::sync::{Arc, Mutex, PoisonError};

use super::Worker;
use crate::engine::RequestError;
use crate::engine::entry::Follows;
use crate::engine::runner::RunError;
use crate::guide::Guide;
use crate::sampler::Promise;

/// Threads, at most: one for each row of a step, so that no mask waits for another.
const MOST: usize = 8;

/// The threads. They are as urgent as the engine's own, which makes them.
pub(super) struct Masks(Option<rayon::ThreadPool>);

impl Masks {
    /// Where the system has no threads left, the engine's own does all.
    pub(super) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = rayon::ThreadPoolBuilder::new()
            .num_threads(cores.min(MOST))
            .thread_name(|index| format!("mask-{index}"))
            // It was told where it happened, and ends the service in order; the promise is broken.
            .panic_handler(|_| {})
            .build();
        Self(threads.ok())
    }

    /// Has a guide say what may follow.
    fn make(&self, guide: Arc<Mutex<Guide>>) -> Promise {
        let (promise, promised) = Promise::new();
        let work = move || {
            let mut guide = guide.lock().unwrap_or_else(PoisonError::into_inner);
            // Why there is none, the guide itself remembers.
            if let Ok(mask) = guide.allowed() {
                promised.keep(mask);
            }
        };
        match &self.0 {
            Some(threads) => threads.spawn(work),
            None => work(),
        }
        promise
    }
}

impl Worker<'_> {
    /// Says what an entry's next token may be, or has it worked out, before it is chosen. Returns whether it goes on; it
    /// does not if nothing may.
    pub(super) fn bound_later(&mut self, at: usize) -> Result<bool, RunError> {
        let entry = &mut self.entries[at];
        if !entry.is_guided() {
            return Ok(true);
        }
        let cache_entry = entry.place();
        match entry.follows(self.runner.vocabulary()) {
            Ok(Follows::Anything) => self.runner.guide(cache_entry, None)?,
            Ok(Follows::Allowed(mask)) => self.runner.guide(cache_entry, Some(&mask))?,
            Ok(Follows::Later(guide)) => {
                let promise = self.masks.make(guide);
                self.runner.guide_later(cache_entry, promise)?;
            }
            Err(error) => {
                self.take_out(at).fail(RequestError::Guide(error));
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// An entry's row found no mask: it runs again, unless there will never be one.
    pub(super) fn repeats(&mut self, at: usize) {
        self.entries[at].repeats();
        if let Some(error) = self.entries[at].never_goes_on() {
            self.take_out(at).fail(RequestError::Guide(error));
        }
    }
}
