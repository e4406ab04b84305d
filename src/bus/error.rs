//! The errors of the bus interfaces, by the names that callers see.

use zbus::DBusError;

use crate::engine::{EngineError, FinishReason, Outcome, Refusal, RequestError, Usage};

/// Says each error once: for the type, and for those who list them.
macro_rules! errors {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Every error name of `org.ganglion.Llm1`; the text names the value and the remedy.
        #[derive(Debug, DBusError)]
        #[zbus(prefix = "org.ganglion.Llm1.Error")]
        pub enum Error {
            /// Any other D-Bus error: of the connection, or one of the standard names.
            #[zbus(error)]
            Bus(zbus::Error),
            $($(#[doc = $doc])+ $name(String),)+
        }

        /// Each error, and what it means.
        pub const ERRORS: &[(&str, &str)] = &[$((stringify!($name), concat!($($doc),+).trim_ascii())),+];
    };
}

errors! {
    /// The model failed to load, or is still loading where that matters, or the daemon is stopping.
    NotReady,
    /// All have as much as there is for all, this session is still answering, or another connection holds it: try again.
    Busy,
    /// The caller's user has as many requests or sessions as one user may have, or keeps as much on disk.
    QuotaExceeded,
    /// No token could follow this prompt: start anew, take back turns, or raise kv.context.
    ContextFull,
    /// An option is unknown, has the wrong type or is out of range; of Reload, the configuration cannot be used.
    InvalidOption,
    /// The conversation is too long for one call, or is not one that the model can answer.
    InvalidMessages,
    /// The model does not fit the memory.
    OutOfMemory,
    /// The daemon stopped before the answer was whole.
    Cancelled,
    /// Of Complete: there was no whole answer within 20 s.
    Timeout,
    /// The object belongs to another connection; one that is closed, or gone, is the standard UnknownObject.
    NotOwner,
    /// This daemon, what it computes with, or the caller cannot do it.
    NotSupported,
    /// The device or the system failed; others go on.
    EngineFailed,
}

/// What all that ask can answer with.
macro_rules! refusals {
    ($($more:literal),*) => {
        &["NotReady", "Busy", "QuotaExceeded", "ContextFull", "InvalidOption", "InvalidMessages", "NotSupported" $(, $more)*]
    };
}

/// Each method, and the errors of `ERRORS` that it can answer with. A request that was accepted tells of its end by
/// its stream and its signal.
#[rustfmt::skip] // a table
pub const METHOD_ERRORS: &[(&str, &[&str])] = &[
    ("Manager.Generate", refusals!()),
    ("Manager.Submit", refusals!()),
    ("Manager.Complete", refusals!("Cancelled", "Timeout", "EngineFailed")),
    ("Manager.OpenSession", refusals!("EngineFailed")),
    ("Manager.ListSessions", &["Busy", "QuotaExceeded", "EngineFailed"]),
    ("Manager.ReadSession", &["Busy", "QuotaExceeded", "InvalidOption", "EngineFailed"]),
    ("Manager.DeleteSession", &["Busy", "InvalidOption", "EngineFailed"]),
    ("Manager.Hold", &["Busy", "QuotaExceeded", "InvalidMessages", "NotSupported"]),
    ("Manager.HoldAll", &["Busy", "QuotaExceeded", "InvalidMessages", "NotSupported"]),
    ("Manager.Reload", &["NotReady", "Busy", "InvalidOption", "OutOfMemory", "NotSupported", "EngineFailed"]),
    ("Session.Send", refusals!("NotOwner")),
    ("Session.Submit", refusals!("NotOwner")),
    ("Session.Reply", refusals!("NotOwner")),
    ("Session.SubmitReply", refusals!("NotOwner")),
    ("Session.Append", &["NotReady", "Busy", "QuotaExceeded", "ContextFull", "InvalidMessages", "NotOwner", "EngineFailed"]),
    ("Session.Prewarm", &["NotReady", "Busy", "QuotaExceeded", "ContextFull", "InvalidOption", "InvalidMessages", "NotOwner", "NotSupported"]),
    ("Session.Branch", &["NotReady", "Busy", "QuotaExceeded", "NotOwner"]),
    ("Session.Rewind", &["Busy", "InvalidOption", "NotOwner", "EngineFailed"]),
    ("Session.Clear", &["Busy", "NotOwner", "EngineFailed"]),
    ("Session.Close", &["NotOwner"]),
    ("Session.History", &["Busy", "NotOwner", "QuotaExceeded"]),
    ("Session.Messages", &["Busy", "NotOwner", "QuotaExceeded"]),
    ("Request.Read", &["Busy", "QuotaExceeded", "InvalidOption", "NotOwner", "NotSupported"]),
    ("Request.Cancel", &["NotOwner"]),
    ("Diagnostics.ResetGraph", &["NotReady", "NotSupported"]),
    ("Diagnostics.DumpGraph", &["NotReady", "NotSupported", "EngineFailed"]),
];

/// A text that may quote what a caller has spelt in JSON, as a D-Bus string may hold it: the bus cuts off whoever sends U+0000.
pub(super) fn carried(text: &impl ToString) -> String {
    text.to_string()
        .replace('\0', char::REPLACEMENT_CHARACTER.encode_utf8(&mut [0; 4]))
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        let message = carried(&refusal);
        match refusal {
            Refusal::NotReady(_) => Self::NotReady(message),
            // What all have together.
            Refusal::Busy { .. }
            | Refusal::TooManyRequests(_)
            | Refusal::TooManySessions(_)
            | Refusal::SessionBusy
            | Refusal::SessionHeld { .. } => Self::Busy(message),
            // What one user has.
            Refusal::UserQueue { .. }
            | Refusal::UserRequests { .. }
            | Refusal::UserSessions { .. }
            | Refusal::UserPages { .. }
            | Refusal::Quota { .. } => Self::QuotaExceeded(message),
            // A closed session is nobody's; its object is about to go.
            Refusal::SessionClosed => Self::NotOwner(message),
            Refusal::ContextFull { .. } | Refusal::PromptBytes { .. } => Self::ContextFull(message),
            Refusal::InvalidMessages(_) => Self::InvalidMessages(message),
            Refusal::Turns { .. }
            | Refusal::InvalidGrammar(_)
            | Refusal::SessionDiffers { .. }
            | Refusal::NoSession(_) => Self::InvalidOption(message),
            Refusal::NotSupported(_) => Self::NotSupported(message),
            Refusal::Unkept(_) => Self::EngineFailed(message),
        }
    }
}

impl From<RequestError> for Error {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Refused(refusal) => refusal.into(),
            // What the caller asked for cannot be said.
            RequestError::Guide(error) => Self::InvalidOption(carried(&error)),
            RequestError::EngineFailed(error) => Self::EngineFailed(carried(&error)),
        }
    }
}

/// The outcome of a request whose engine thread has died.
pub(super) fn engine_gone() -> Outcome {
    let error = EngineError::Stopped.into();
    Outcome::new(FinishReason::Error, Usage::default(), Some(error))
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
