//! The engine thread.
