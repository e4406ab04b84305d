//! Loads a model for the engine, and replaces the running model by another between two requests.
//!
//! From files to a runner is `load`'s work. When the replacement takes place is decided by `worker`.

pub(super) mod loaded_model;
pub(super) mod replace;
pub(super) mod replacement;
