//! What callers see of the engine: its handle, the options and events of a request, limits, the status, holds.
//!
//! It contains no queue and no scheduling. Who may call, and over which protocol, is decided above the engine.

// The handle, and who uses it.
pub(super) mod client;
pub(super) mod handle;
pub(super) mod ids;
pub(super) mod limits;
// A request: its options, its events, why it is refused or fails.
pub(super) mod error;
pub(super) mod request;
// The engine as a whole.
pub(super) mod held;
pub(super) mod hold;
pub(super) mod release;
pub(super) mod status;
pub(super) mod status_watch;
