//! Why a run failed.

use crate::executor::ExecuteError;
use crate::tape::TapeError;

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    #[error("the model does not fit its tape: {0}")]
    Tape(#[from] TapeError),
    #[error(
        "no {positions} positions of the cache are free while other turns run: end some of them, or set kv.memory_mib higher"
    )]
    NoPages { positions: usize },
    #[error(
        "the pages of entry {entry} have gone to other turns: begin its turn again, and join it so that it keeps them"
    )]
    Unseated { entry: usize },
}

impl RunError {
    /// The driver's own name of the error, if it is one of the driver's.
    #[must_use]
    pub fn driver_error(&self) -> Option<&str> {
        match self {
            Self::Execute(error) => error.driver_error(),
            Self::Tape(_) | Self::NoPages { .. } | Self::Unseated { .. } => None,
        }
    }

    /// Whether nothing can run any more in this process.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        match self {
            #[cfg(feature = "cuda")]
            Self::Execute(ExecuteError::Device(error)) => error.is_sticky(),
            Self::Execute(error) => matches!(error, ExecuteError::Refused { lost: true, .. }),
            Self::Tape(_) | Self::NoPages { .. } | Self::Unseated { .. } => false,
        }
    }
}
