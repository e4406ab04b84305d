//! The errors of a runner.

use super::tower::EncodeError;
use crate::executor::{ExecuteError, ImageError};
use crate::tape::TapeError;

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    #[error("an image cannot be encoded: {0}")]
    Encode(EncodeError),
    #[error("the model does not fit its tape: {0}")]
    Tape(#[from] TapeError),
    #[error(
        "no {positions} positions of the cache are free while other turns run: end some of them, or set kv.memory_mib higher"
    )]
    NoPages { positions: usize },
    #[error(
        "row {at} of the prompt is not the next row of an image: give all rows of each image, one after the other"
    )]
    ImageRow { at: usize },
    #[error(
        "an image of {tokens} tokens has no {rows} rows of {columns}: give the grid of its tokens"
    )]
    ImageGrid {
        rows: usize,
        columns: usize,
        tokens: usize,
    },
    #[error(
        "the pages of slot {slot} belong to other requests: begin its request again, and join it so that it keeps them"
    )]
    Unseated { slot: usize },
    #[error("a turn of the session runs: rewind it once the turn has ended")]
    Runs,
}

impl RunError {
    /// Returns the driver's name of the error, if the driver reported it.
    #[must_use]
    pub fn driver_error(&self) -> Option<&str> {
        match self {
            Self::Execute(error) | Self::Encode(EncodeError::Execute(error)) => {
                error.driver_error()
            }
            Self::Encode(_)
            | Self::Tape(_)
            | Self::NoPages { .. }
            | Self::ImageRow { .. }
            | Self::ImageGrid { .. }
            | Self::Unseated { .. }
            | Self::Runs => None,
        }
    }

    /// Whether the device is lost, so that this process must end.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        let execute = match self {
            Self::Execute(error) | Self::Encode(EncodeError::Execute(error)) => error,
            Self::Encode(_)
            | Self::Tape(_)
            | Self::NoPages { .. }
            | Self::ImageRow { .. }
            | Self::ImageGrid { .. }
            | Self::Unseated { .. }
            | Self::Runs => return false,
        };
        match execute {
            #[cfg(feature = "cuda")]
            ExecuteError::Device(error) => error.is_sticky(),
            error => matches!(error, ExecuteError::Refused { lost: true, .. }),
        }
    }
}

impl From<EncodeError> for RunError {
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::Execute(error) => Self::Execute(error),
            error => Self::Encode(error),
        }
    }
}

impl From<ImageError> for RunError {
    fn from(error: ImageError) -> Self {
        ExecuteError::from(error).into()
    }
}
