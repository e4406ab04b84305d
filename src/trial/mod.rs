//! Checks of this machine's device, some with a loaded model: memory, recordings with refused calls, and rows that step
//! together.
//!
//! `ganglionctl verify` runs them on a board, and `tests/gpu/` on any GPU with more models and all cases. They judge
//! results, and no speed. They start no service and write no file.

#[cfg(feature = "cuda")]
pub mod chunks;
mod error;
pub mod recordings;
pub mod refusals;
pub mod rows;

pub use error::TrialError;
