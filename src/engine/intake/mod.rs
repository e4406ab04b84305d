//! The way of a request from a caller to the engine thread: checks, registration, encoding, and the queue.
//!
//! It contains no model. What the engine thread does with a request from the queue is in `worker`.

// From the call to the queue.
pub(super) mod accept;
pub(super) mod beginning;
mod count;
mod decoding;
pub(super) mod prepare;
pub(super) mod prewarm;
// Every request, from its call to its end.
pub(super) mod registration;
pub(super) mod request;
pub(super) mod requests;
// The queue, whose head is a fair choice between users.
pub(super) mod control;
pub(super) mod fair;
pub(super) mod queue;
pub(super) mod receiver;
pub(super) mod wait_estimate;
// What callers and the engine thread share.
pub(super) mod shared;
