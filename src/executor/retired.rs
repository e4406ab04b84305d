//! What stays of an executor after its weights and all its memory are released: the recordings of steps.
//!
//! An executor of the same backend that is loaded later continues them, so that no executable graph is made again.

use std::any::Any;
use std::fmt::Debug;

use super::base::{Base, Graphs};

/// A retired executor. It stays on the thread of the executor that continues it.
pub trait Retired: Any + Debug {
    /// The life cycle and the counts of recordings.
    fn graphs(&self) -> &dyn Graphs;

    fn graphs_mut(&mut self) -> &mut dyn Graphs;
}

impl<E: Debug + 'static> Retired for Base<E> {
    fn graphs(&self) -> &dyn Graphs {
        self
    }

    fn graphs_mut(&mut self) -> &mut dyn Graphs {
        self
    }
}
