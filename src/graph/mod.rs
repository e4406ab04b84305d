//! A step recorded once and replayed by one call: the decode graph, its life cycle, and a capture as a guard.
//!
//! Executors record and replay by `Stepper`, the CPU's as well as CUDA's, so that the life cycle is tested
//! without a GPU. What a step computes is not known here.

mod buckets;
mod decode;
mod event;
mod life;
mod mode;
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
#[cfg(feature = "cuda")]
pub use recording::Recording;
#[cfg(feature = "cuda")]
pub use replay::Graph;
pub use stepper::Stepper;
pub use trace::Trace;
