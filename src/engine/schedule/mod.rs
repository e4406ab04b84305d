//! What the engine thread runs next: pure functions, and the measurements that they decide by.
//!
//! Nothing here waits, reads a clock or runs a step.

pub(super) mod policy;
pub(super) mod prefill_time;
pub(super) mod slices;
