//! The interface that the CPU and a CUDA device implement: it runs tapes on a paged key-value cache.
//!
//! An executor is `Steps` (prefill and decode), `Pages` (the memory of the cache), `States` (recurrent states) and
//! `Inspect` (names, times, logits).
//! `Base` holds the state that both executors share. An executor of a vision tower is `Encode` alone. This module names neither executor and knows no model.
//!
//! The cache has several slots, each for one conversation. An executor can be sent to another thread, and one thread at a
//! time uses it. Calls are dynamic; their cost cannot be measured next to a step.

mod base;
mod encode;
mod images;
mod inspect;
mod memory_estimate;
mod pages;
mod preempted;
mod probe;
mod retired;
mod state_places;
mod states;
mod step;
mod steps;
mod weights;

use std::fmt::Debug;

pub use self::base::{Base, Graphs};
pub use self::encode::Encode;
pub use self::images::{ImageError, ImagePrompt, ImageSpan};
pub use self::inspect::Inspect;
pub use self::memory_estimate::MemoryEstimate;
pub use self::pages::Pages;
pub use self::preempted::{
    PLACES, PREEMPTED, Pass, PreemptPrompt, PreemptStep, Preempted, PromptRows, STEP_PLACE,
};
pub use self::probe::{Layout, Probe};
pub use self::retired::Retired;
pub use self::state_places::StatePlaces;
pub use self::states::States;
pub use self::step::{ExecuteError, Given, Span, StateError, StepState, StepTimes, Timed};
pub use self::steps::{Behind, Steps};
pub use self::weights::{
    FLIGHT_BYTES, FillError, PIECE_BYTES, WeightSource, in_flight, pieces_at_once,
};
use crate::fault::Faults;

/// A backend that runs tapes.
pub trait Executor: Steps + Pages + States + Inspect + Debug + Send {
    /// The name of the backend: "cpu" or "cuda".
    fn name(&self) -> &'static str;

    /// A text that differs whenever the last bits of results can differ.
    fn identity(&self) -> String;

    /// The life cycle and the counts of recordings.
    fn graphs(&self) -> &dyn Graphs;

    fn graphs_mut(&mut self) -> &mut dyn Graphs;

    /// Prepares the executor for use on this thread, after another thread has used it.
    ///
    /// # Errors
    /// If the device has failed.
    fn attach_thread(&self) -> Result<(), ExecuteError> {
        Ok(())
    }

    /// The failures that tests inject.
    fn faults(&self) -> &Faults;

    /// Releases the weights and all other memory. No step may be ahead.
    fn retire(self: Box<Self>) -> Box<dyn Retired>;

    /// Continues the recordings of a retired executor, of which this one may have taken the device before. Of another backend's
    /// only the counts continue. This executor has run no step.
    fn resume(&mut self, before: Box<dyn Retired>);
}
