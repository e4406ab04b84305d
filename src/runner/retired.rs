//! A runner whose weights and memory are released, and the runner that continues it after another load.
//!
//! The cache is empty then: the next turn of each session is prefilled again, or restored from the disk.

use super::Runner;
use super::error::RunError;
use super::state_use::LostStates;
use crate::executor::Retired;
use crate::graph::{Counts, Event, LifeCycle, Mode};
use crate::kv::{Kv, Owner};
use crate::tape::KvInfo;

/// A runner without a model.
#[derive(Debug)]
pub struct RetiredRunner {
    kv: Kv,
    executor: Box<dyn Retired>,
    /// The first number that no row of an image has.
    next_image: u32,
    lost: LostStates,
}

impl Runner {
    /// Releases the weights and all other memory. No step may be ahead.
    #[must_use]
    pub fn retire(mut self) -> RetiredRunner {
        let change = self.kv.unload();
        self.changed(change);
        let Self {
            executor,
            kv,
            images,
            state_use,
            ..
        } = self;
        RetiredRunner {
            kv,
            executor: executor.retire(),
            next_image: images.next,
            lost: state_use.lost,
        }
    }

    /// Prepares the device for use on this thread, after another thread has loaded the model.
    ///
    /// # Errors
    /// If the device has failed.
    pub fn attach_thread(&self) -> Result<(), RunError> {
        Ok(self.executor.attach_thread()?)
    }

    /// Takes over the sessions, the counters and the recordings of a retired runner. This one has run nothing.
    pub fn resume(&mut self, retired: RetiredRunner) {
        let RetiredRunner {
            kv,
            executor,
            next_image,
            lost,
        } = retired;
        let reuse = self.kv.reuse();
        self.kv = kv;
        self.kv.set_reuse(reuse);
        self.kv.set_layout(super::layout(&self.forward));
        let KvInfo {
            slots,
            pages,
            chunk,
            ..
        } = self.forward.kv;
        self.kv.allocated_again(slots, (pages, chunk));
        self.images.next = next_image;
        self.state_use.lost = lost;
        self.executor.resume(executor);
    }
}

impl RetiredRunner {
    /// Returns the life cycle of the decode graph.
    #[must_use]
    pub fn graph(&self) -> &LifeCycle {
        self.executor.graphs().life()
    }

    /// Returns the events of the decode graph since the last call.
    pub fn take_graph_events(&mut self) -> Vec<Event> {
        self.executor.graphs_mut().life_mut().take_events()
    }

    /// Drops all recordings, as `Runner::reset_graph`.
    pub fn reset_graph(&mut self) {
        self.executor.graphs_mut().reset();
    }

    /// Changes how steps are recorded.
    pub fn set_graph_mode(&mut self, mode: Mode) {
        self.executor.graphs_mut().set_mode(mode);
    }

    /// Forgets a session that has ended.
    pub fn release(&mut self, owner: Owner) {
        self.kv.release(owner);
    }

    /// Returns the recurrent states that slots have lost to others.
    #[must_use]
    pub fn lost_states(&self) -> LostStates {
        self.lost
    }

    /// Returns counts of recorded prompts.
    #[must_use]
    pub fn prompt_graphs(&self) -> Counts {
        self.executor.graphs().prompt_counts()
    }

    /// The executor, whose device the next one may take over.
    #[cfg(feature = "cuda")]
    pub(crate) fn executor_mut(&mut self) -> &mut Box<dyn Retired> {
        &mut self.executor
    }
}
