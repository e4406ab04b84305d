//! What the engine publishes about its work: a snapshot after each step, progress for a watchdog, journal events.
//!
//! It judges nothing, and a reader never holds up the engine thread.

pub(super) mod live;
pub(super) mod observer;
pub(super) mod progress;
pub(super) mod report;
