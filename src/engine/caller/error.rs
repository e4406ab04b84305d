//! Why the engine could not finish what it had accepted, whatever was asked.

use crate::runner::RunError;

/// What has failed.
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
    /// It ended without a word to the one who waited.
    #[error("the engine has stopped; the service restarts it")]
    Stopped,
    /// As a script has it.
    #[error("{text}")]
    Scripted {
        text: String,
        driver_error: Option<&'static str>,
    },
}

impl EngineError {
    /// The driver's own name of the error, if it is one of the driver's.
    #[must_use]
    pub fn driver_error(&self) -> Option<&str> {
        match self {
            Self::Run(error) => error.driver_error(),
            Self::Scripted { driver_error, .. } => *driver_error,
            Self::NoVocabulary | Self::Replaced | Self::Ended | Self::Stopped => None,
        }
    }
}
