//! The errors of the bus interfaces, by the names that callers see.

use zbus::DBusError;

use crate::engine::{FinishReason, Outcome, Refusal, RequestError, Usage};

/// Every error name of `org.ganglion.Llm1`; the text names the value and the remedy.
#[derive(Debug, DBusError)]
#[zbus(prefix = "org.ganglion.Llm1.Error")]
pub enum Error {
    /// Any other D-Bus error: of the connection, or one of the standard names.
    #[zbus(error)]
    Bus(zbus::Error),
    /// The model failed to load, or the daemon is stopping.
    NotReady(String),
    /// The queue is full, or this session is still answering.
    Busy(String),
    /// The caller, or its user, has as much as it may have.
    QuotaExceeded(String),
    /// No token could follow this prompt.
    ContextFull(String),
    /// An option is unknown, has the wrong type or is out of range; of a reload, the configuration cannot be used.
    InvalidOption(String),
    /// The conversation is not one that the model can answer.
    InvalidMessages(String),
    /// The model does not fit the memory.
    OutOfMemory(String),
    /// The request was cancelled.
    Cancelled(String),
    /// The object belongs to another connection.
    NotOwner(String),
    /// This release, or this backend, cannot do it.
    NotSupported(String),
    /// The engine failed on this request; others go on.
    EngineFailed(String),
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        let message = refusal.to_string();
        match refusal {
            Refusal::NotReady(_) => Self::NotReady(message),
            // What all have together.
            Refusal::Busy { .. }
            | Refusal::TooManyRequests(_)
            | Refusal::TooManySessions(_)
            | Refusal::SessionBusy => Self::Busy(message),
            // What one user has.
            Refusal::UserQueue { .. }
            | Refusal::UserRequests { .. }
            | Refusal::UserSessions { .. } => Self::QuotaExceeded(message),
            // A closed session is nobody's; its object is about to go.
            Refusal::SessionClosed => Self::NotOwner(message),
            Refusal::ContextFull { .. } => Self::ContextFull(message),
            Refusal::InvalidMessages(_) => Self::InvalidMessages(message),
            Refusal::Turns { .. } => Self::InvalidOption(message),
            Refusal::NotSupported(_) => Self::NotSupported(message),
        }
    }
}

impl From<RequestError> for Error {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Refused(refusal) => refusal.into(),
            RequestError::EngineFailed(message) => Self::EngineFailed(message),
        }
    }
}

/// The outcome of a request whose engine thread has died.
pub(super) fn engine_gone() -> Outcome {
    let message = "the engine has stopped; the service restarts it".to_owned();
    Outcome {
        reason: FinishReason::Error,
        usage: Usage::default(),
        error: Some(RequestError::EngineFailed(message)),
    }
}

/// Name and text of the error that ended a request; `None` if none did.
pub(super) fn of_outcome(outcome: &Outcome) -> Option<(String, String)> {
    if outcome.reason != FinishReason::Error {
        return None;
    }
    let error = match outcome.error.clone() {
        Some(error) => Error::from(error),
        None => Error::EngineFailed("the engine gave no reason".into()),
    };
    Some((
        error.name().to_string(),
        error.description().unwrap_or_default().to_owned(),
    ))
}
