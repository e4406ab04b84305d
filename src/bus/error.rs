//! The errors of the bus interfaces, by the names that callers see.

use zbus::message::{Header, Message};
use zbus::names::ErrorName;
use zbus::{DBusError, fdo};

use crate::engine::{EngineError, FinishReason, Outcome, Refusal, RequestError, Usage};

/// Errors of the connection itself, which have no name of their own.
const OF_CONNECTION: &str = "org.freedesktop.zbus.Error";

/// Says each error once: for the type, and for those who list them.
macro_rules! errors {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Every error name of `org.ganglion.Llm1`; the text names the value and the remedy.
        #[derive(Debug)]
        pub enum Error {
            /// Any other D-Bus error: of the connection, or one of the standard names.
            Bus(zbus::Error),
            $($(#[doc = $doc])+ $name(String),)+
        }

        impl DBusError for Error {
            fn name(&self) -> ErrorName<'_> {
                ErrorName::from_static_str_unchecked(match self {
                    Self::Bus(zbus::Error::FDO(error)) => return error.name(),
                    Self::Bus(_) => OF_CONNECTION,
                    $(Self::$name(_) => concat!("org.ganglion.Llm1.Error.", stringify!($name)),)+
                })
            }

            fn description(&self) -> Option<&str> {
                match self {
                    Self::Bus(zbus::Error::FDO(error)) => error.description(),
                    Self::Bus(error) => error.description(),
                    $(Self::$name(text) => Some(text),)+
                }
            }

            fn create_reply(&self, call: &Header<'_>) -> zbus::Result<Message> {
                let text = match self {
                    Self::Bus(zbus::Error::FDO(error)) => return error.create_reply(call),
                    Self::Bus(error) => &error.to_string(),
                    $(Self::$name(text) => text,)+
                };
                Message::error(call, self.name()).build(&text)
            }
        }

        impl From<zbus::Error> for Error {
            fn from(error: zbus::Error) -> Self {
                let (name, text) = match &error {
                    zbus::Error::MethodError(name, text, _) => (name.as_str(), text.as_deref()),
                    _ => return Self::Bus(error),
                };
                let text = || text.unwrap_or_default().to_owned();
                match name {
                    $(concat!("org.ganglion.Llm1.Error.", stringify!($name)) => Self::$name(text()),)+
                    _ => Self::Bus(error),
                }
            }
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
    ("Session.Send", refusals!()),
    ("Session.Submit", refusals!()),
    ("Session.Reply", refusals!()),
    ("Session.SubmitReply", refusals!()),
    ("Session.Append", &["NotReady", "Busy", "QuotaExceeded", "ContextFull", "InvalidMessages", "EngineFailed"]),
    ("Session.Prewarm", &["NotReady", "Busy", "QuotaExceeded", "ContextFull", "InvalidOption", "InvalidMessages", "NotSupported"]),
    ("Session.Branch", &["NotReady", "Busy", "QuotaExceeded"]),
    ("Session.Rewind", &["Busy", "InvalidOption", "EngineFailed"]),
    ("Session.Clear", &["Busy", "EngineFailed"]),
    ("Session.Close", &[]),
    ("Session.History", &["Busy", "QuotaExceeded"]),
    ("Session.Messages", &["Busy", "QuotaExceeded"]),
    ("Request.Read", &["Busy", "QuotaExceeded", "InvalidOption", "NotSupported"]),
    ("Request.Cancel", &[]),
    ("Diagnostics.ResetGraph", &["NotReady", "NotSupported"]),
    ("Diagnostics.DumpGraph", &["NotReady", "NotSupported", "EngineFailed"]),
];

/// A text that may quote what a caller has spelt in JSON, as a D-Bus string may hold it: the bus cuts off whoever sends U+0000.
pub(super) fn carried(text: &impl ToString) -> String {
    text.to_string()
        .replace('\0', char::REPLACEMENT_CHARACTER.encode_utf8(&mut [0; 4]))
}

impl std::fmt::Display for Error {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = self.description().unwrap_or("no description");
        write!(formatter, "{}: {text}", self.name())
    }
}

impl std::error::Error for Error {}

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
            // Its object is about to go.
            Refusal::SessionClosed => unknown(message),
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

/// The standard error of an object that is not there.
pub(super) fn unknown(text: String) -> Error {
    Error::Bus(zbus::Error::FDO(Box::new(fdo::Error::UnknownObject(text))))
}

/// What a caller reads of a path that is none of its own objects, whether it is another caller's or nobody's.
pub(super) fn no_object(path: &str) -> String {
    format!(
        "{path} is no object of this connection: it is closed, or gone, or another connection made it; open your own on the \
         connection that uses it"
    )
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
