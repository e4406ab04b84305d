//! D-Bus errors as exit codes, with what helps.

use ganglion::bus;
use zbus::{DBusError as _, fdo};

use super::membership;
use crate::failure::{Exit, Failure};

/// The exit code of an error, by its D-Bus name.
pub(crate) fn exit_of(name: &str) -> Exit {
    let ours = name.strip_prefix("org.ganglion.Llm1.Error.");
    if let Some(ours) = ours {
        return match ours {
            "Busy" | "QuotaExceeded" => Exit::Busy,
            "ContextFull" | "InvalidMessages" => Exit::Data,
            "InvalidOption" => Exit::Usage,
            "NotOwner" => Exit::Forbidden,
            "NotReady" | "NotSupported" | "OutOfMemory" => Exit::Unavailable,
            _ => Exit::Failed,
        };
    }
    match name.strip_prefix("org.freedesktop.DBus.Error.") {
        Some("AccessDenied" | "AuthFailed") => Exit::Forbidden,
        Some("LimitsExceeded") => Exit::Busy,
        _ => Exit::Unavailable,
    }
}

/// What a call that failed means for whoever typed the command.
pub(crate) fn refused(error: bus::Error) -> Failure {
    let error = match error {
        bus::Error::Bus(zbus::Error::FDO(error)) => return standard(&error),
        bus::Error::Bus(zbus::Error::InputOutput(error)) => {
            return Failure::new(Exit::Unavailable, format!("the bus is gone: {error}"));
        }
        error => error,
    };
    let exit = exit_of(&error.name());
    let message = match error.description() {
        Some(message) if !message.is_empty() => message.to_owned(),
        _ => error.to_string(),
    };
    Failure::new(exit, message)
}

/// The standard errors, which the bus itself answers with.
fn standard(error: &fdo::Error) -> Failure {
    let exit = exit_of(&error.name());
    let why = error.description().unwrap_or_default();
    let message = match error {
        fdo::Error::ServiceUnknown(_) | fdo::Error::NameHasNoOwner(_) => format!(
            "nobody owns {} on this bus; is gangliond running? see systemctl status gangliond",
            bus::NAME
        ),
        // What the bus says of it is three hundred characters about its own rules.
        fdo::Error::AccessDenied(_) => membership::remedy(),
        fdo::Error::NoReply(_) | fdo::Error::Disconnected(_) => {
            format!("the daemon went away: {why}; see journalctl -u gangliond")
        }
        fdo::Error::UnknownMethod(_)
        | fdo::Error::UnknownInterface(_)
        | fdo::Error::UnknownProperty(_)
        | fdo::Error::InvalidArgs(_) => {
            format!("{why}; are ganglionctl and gangliond of the same version?")
        }
        _ => why.to_owned(),
    };
    Failure::new(exit, message)
}
