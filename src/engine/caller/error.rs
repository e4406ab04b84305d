//! The errors of accepted requests that are the engine's fault.

use crate::runner::RunError;

/// Why the engine could not finish an accepted request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("the engine has no vocabulary")]
    NoVocabulary,
    #[error(
        "another model has taken the place of the one that was answering, and its tokens are others; ask again, or raise \
         reload.drain_seconds"
    )]
    Replaced,
    #[error("the engine has ended; the service restarts it")]
    Ended,
    /// The engine thread ended before the request did.
    #[error("the engine has stopped; the service restarts it")]
    Stopped,
    /// A scripted error.
    #[error("{text}")]
    Scripted {
        text: String,
        driver_error: Option<&'static str>,
    },
}

impl EngineError {
    /// Returns the driver's name of the error, if the driver reported it.
    #[must_use]
    pub fn driver_error(&self) -> Option<&str> {
        match self {
            Self::Run(error) => error.driver_error(),
            Self::Scripted { driver_error, .. } => *driver_error,
            Self::NoVocabulary | Self::Replaced | Self::Ended | Self::Stopped => None,
        }
    }
}
