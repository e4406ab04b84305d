//! Why a trial failed.

#[cfg(feature = "cuda")]
use crate::device;
use crate::runner::RunError;

/// Why a trial failed.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    #[error(transparent)]
    Run(#[from] RunError),
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Device(#[from] device::Error),
    /// A result is wrong; the text names it.
    #[error("{0}")]
    Wrong(String),
}
