//! The errors of the bus interfaces, by the names that callers see.

use zbus::message::{Header, Message};
use zbus::names::ErrorName;
use zbus::{DBusError, fdo};

use super::options_table::Allowed;
use crate::engine::{EngineError, FinishReason, Outcome, Refusal, RequestError, Usage};
use crate::front::{self, OptionError};

/// The name of errors of the connection itself.
const OF_CONNECTION: &str = "org.freedesktop.zbus.Error";

/// Defines each error once: for the type, and for the list.
macro_rules! errors {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// An error of `org.ganglion.Llm1`; its text names the wrong value and the remedy.
        #[derive(Debug)]
        pub enum Error {
            /// Any other D-Bus error: of the connection, or with a standard name.
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

        /// Each error, and its meaning.
        pub const ERRORS: &[(&str, &str)] = &[$((stringify!($name), concat!($($doc),+).trim_ascii())),+];
    };
}

errors! {
    /// The model could not be loaded, or is still loading and the call needs it, or the daemon is stopping.
    NotReady,
    /// A shared limit is reached, or the session is in use. Try again later.
    Busy,
    /// A limit of the caller's user is reached: of requests, sessions, unread answers, or data on disk.
    QuotaExceeded,
    /// The prompt leaves no room for an answer. Clear the session, rewind it, or raise kv.context.
    ContextFull,
    /// An option is unknown, has the wrong type or is out of range; of Reload, the configuration cannot be used.
    InvalidOption,
    /// The conversation is too long for one call, or the model cannot answer it.
    InvalidMessages,
    /// The model does not fit the memory.
    OutOfMemory,
    /// The daemon stopped before the answer was complete.
    Cancelled,
    /// Of Complete: the answer was not complete within 20 s.
    Timeout,
    /// This daemon, its model, its device or the caller's connection cannot do this.
    NotSupported,
    /// The device or the system failed. Other requests continue.
    EngineFailed,
}

/// The errors of every method that makes a request.
macro_rules! refusals {
    ($($more:literal),*) => {
        &["NotReady", "Busy", "QuotaExceeded", "ContextFull", "InvalidOption", "InvalidMessages", "NotSupported" $(, $more)*]
    };
}

/// Each method, and the errors of `ERRORS` that it can answer with. An accepted request reports later errors by its stream
/// and its signal.
#[rustfmt::skip] // a table
pub const METHOD_ERRORS: &[(&str, &[&str])] = &[
    ("Manager.Generate", refusals!()),
    ("Manager.Submit", refusals!()),
    ("Manager.Complete", refusals!("Cancelled", "Timeout", "OutOfMemory", "EngineFailed")),
    ("Manager.OpenSession", refusals!("EngineFailed")),
    ("Manager.ListSessions", &["Busy", "QuotaExceeded", "EngineFailed"]),
    ("Manager.ReadSession", &["Busy", "QuotaExceeded", "InvalidOption", "EngineFailed"]),
    ("Manager.DeleteSession", &["Busy", "InvalidOption", "EngineFailed"]),
    ("Manager.Hold", &["Busy", "QuotaExceeded", "InvalidMessages", "NotSupported"]),
    ("Manager.HoldAll", &["Busy", "QuotaExceeded", "InvalidMessages", "NotSupported"]),
    ("Manager.Reload", &["NotReady", "Busy", "InvalidOption", "OutOfMemory", "NotSupported", "EngineFailed"]),
    ("Manager.Release", &["NotReady", "Busy"]),
    ("Session.Send", refusals!()),
    ("Session.Submit", refusals!()),
    ("Session.Reply", refusals!()),
    ("Session.SubmitReply", refusals!()),
    ("Session.Append", &["NotReady", "Busy", "QuotaExceeded", "ContextFull", "InvalidMessages", "NotSupported", "EngineFailed"]),
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

/// Returns a text without U+0000, which a quoted JSON string may hold: the bus disconnects a sender of such a string.
fn without_nul(text: &impl ToString) -> String {
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
        let message = without_nul(&refusal);
        match refusal {
            Refusal::NotReady(_) => Self::NotReady(message),
            // Limits of all users together, and sessions in use.
            Refusal::OutOfMemory(_) => Self::OutOfMemory(message),
            Refusal::Active { .. }
            | Refusal::Busy { .. }
            | Refusal::TooManyRequests(_)
            | Refusal::TooManySessions(_)
            | Refusal::TooManyImages { .. }
            | Refusal::TooManyPixels { .. }
            | Refusal::SessionBusy
            | Refusal::SessionHeld { .. } => Self::Busy(message),
            // Limits of one user.
            Refusal::UserQueue { .. }
            | Refusal::UserRequests { .. }
            | Refusal::UserSessions { .. }
            | Refusal::UserPages { .. }
            | Refusal::UserImages { .. }
            | Refusal::UserPixels { .. }
            | Refusal::Quota { .. } => Self::QuotaExceeded(message),
            // Its object is about to be removed.
            Refusal::SessionClosed => unknown_object(message),
            Refusal::ContextFull { .. } | Refusal::PromptBytes { .. } => Self::ContextFull(message),
            Refusal::InvalidMessages(_) | Refusal::Image { .. } => Self::InvalidMessages(message),
            Refusal::Turns { .. }
            | Refusal::InvalidGrammar(_)
            | Refusal::SessionDiffers { .. }
            | Refusal::NoSession(_) => Self::InvalidOption(message),
            Refusal::NotSupported(_) => Self::NotSupported(message),
            Refusal::Unkept(_) => Self::EngineFailed(message),
        }
    }
}

impl From<front::Error> for Error {
    fn from(error: front::Error) -> Self {
        let message = without_nul(&error);
        match error {
            front::Error::Option(OptionError::Value {
                name,
                given,
                allowed,
            }) => Self::InvalidOption(option_error(&name, &given, Allowed::Shared(allowed))),
            front::Error::Option(_) => Self::InvalidOption(message),
            front::Error::Messages(_)
            | front::Error::Image { .. }
            | front::Error::TooManyImages { .. }
            | front::Error::SlowImages => Self::InvalidMessages(message),
            front::Error::Refused(refusal) => refusal.into(),
            front::Error::NoRandomness(_) | front::Error::ReaderFailed(_) => {
                Self::EngineFailed(message)
            }
        }
    }
}

/// Returns the text for an option whose value is not allowed, with the D-Bus types of the allowed values.
pub(super) fn option_error(name: &str, given: &str, allowed: Allowed) -> String {
    without_nul(&format!("option {name:?} is {given}; allowed is {allowed}"))
}

impl From<RequestError> for Error {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Refused(refusal) => refusal.into(),
            // The model has no token that continues the answer.
            RequestError::Guide(error) => Self::InvalidOption(without_nul(&error)),
            RequestError::EngineFailed(error) => Self::EngineFailed(without_nul(&error)),
        }
    }
}

/// Returns the standard error of an object that does not exist.
pub(super) fn unknown_object(text: String) -> Error {
    Error::Bus(zbus::Error::FDO(Box::new(fdo::Error::UnknownObject(text))))
}

/// Returns the text for a path that is not one of the caller's objects, whether or not another caller has it.
pub(super) fn no_object(path: &str) -> String {
    format!(
        "{path} is not an object of this connection: it was closed or has ended, or another connection made it; make your own \
         on the connection that uses it"
    )
}

/// Returns the outcome of a request whose engine thread has ended.
pub(super) fn engine_gone() -> Outcome {
    let error = EngineError::Stopped.into();
    Outcome::new(FinishReason::Error, Usage::default(), Some(error))
}

/// Returns name and text of the error that ended a request; `None` if none did.
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
