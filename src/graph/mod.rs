//! Recorded work: the decode graph and its life cycle, recorded prompts, and a capture as a guard.
//!
//! A step is recorded once and replayed by one call. Both executors implement `Stepper`, so that the life cycle can be tested
//! without a GPU. This module does not know what a step computes.

mod buckets;
mod decode;
mod event;
mod life;
mod mode;
mod options;
#[cfg(feature = "cuda")]
mod recording;
#[cfg(feature = "cuda")]
mod replay;
mod stepper;
mod trace;

pub use buckets::{Buckets, Budget, Counts, Key};
pub use decode::{DecodeGraph, Ran};
pub use event::{Counters, Event, InvalidationReason, Refused, Renewal, State};
pub use life::{LifeCycle, MOST_FAILURES};
pub use mode::Mode;
pub use options::GraphOptions;
#[cfg(feature = "cuda")]
pub use recording::Recording;
#[cfg(feature = "cuda")]
pub use replay::Graph;
pub use stepper::Stepper;
pub use trace::Trace;
