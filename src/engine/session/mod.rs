//! Conversations that the engine remembers between requests: open ones, named ones, persistent ones.
//!
//! It runs nothing. Records on disk are the `session_store`'s, and pages of the cache the `kv_store`'s.

// In memory.
pub(super) mod answer;
mod conversation;
mod idle;
pub(super) mod open_sessions;
pub(super) mod sessions;
// With a name, and with a file.
mod changes;
pub(super) mod listing;
pub(super) mod named;
mod pages;
pub(super) mod persistent;
mod release;
mod settings;
pub(super) mod transcript;
