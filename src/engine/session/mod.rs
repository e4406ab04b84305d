//! Conversations that the engine remembers between requests: open ones, named ones, persistent ones.
//!
//! It runs nothing. Records on disk are the `session_store`'s, and pages of the cache the `kv_store`'s.

// In memory.
pub(super) mod answer;
pub(super) mod open_sessions;
pub(super) mod sessions;
// With a name, and with a file.
pub(super) mod named;
pub(super) mod persistent;
pub(super) mod transcript;
