//! D-Bus errors as exit codes and remedies.

use ganglion::bus;
use zbus::{DBusError as _, fdo};

use super::membership;
use crate::failure::{Exit, Failure, failure};

/// Returns the exit code of an error, by its D-Bus name.
pub(crate) fn exit_of(name: &str) -> Exit {
    let ours = name.strip_prefix("org.ganglion.Llm1.Error.");
    let standard = name.strip_prefix("org.freedesktop.DBus.Error.");
    match (ours, standard) {
        (Some("Busy" | "QuotaExceeded"), _) | (_, Some("LimitsExceeded")) => Exit::Busy,
        (Some("ContextFull" | "InvalidMessages"), _) => Exit::Data,
        (Some("InvalidOption"), _) => Exit::Usage,
        (_, Some("AccessDenied" | "AuthFailed")) => Exit::Forbidden,
        (Some("NotReady" | "NotSupported" | "OutOfMemory") | None, _) => Exit::Unavailable,
        (Some(_), _) => Exit::Failed,
    }
}

/// Converts the error of a call.
impl From<bus::Error> for Failure {
    fn from(error: bus::Error) -> Self {
        match error {
            bus::Error::Bus(zbus::Error::FDO(error)) => (*error).into(),
            bus::Error::Bus(zbus::Error::InputOutput(error)) => {
                failure!(Unavailable: "the bus is gone: {error}")
            }
            error => {
                let exit = exit_of(&error.name());
                match error.description().filter(|said| !said.is_empty()) {
                    Some(said) => Self::new(exit, said),
                    None => Self::new(exit, error),
                }
            }
        }
    }
}

impl From<zbus::Error> for Failure {
    fn from(error: zbus::Error) -> Self {
        bus::Error::from(error).into()
    }
}

/// Converts the standard errors, which the bus itself returns.
impl From<fdo::Error> for Failure {
    fn from(error: fdo::Error) -> Self {
        let why = error.description().unwrap_or_default();
        let message = match error {
            fdo::Error::ServiceUnknown(_) | fdo::Error::NameHasNoOwner(_) => format!(
                "gangliond is not running: {} has no owner on this bus; see systemctl status gangliond",
                bus::NAME
            ),
            // The bus's own text only describes its rules.
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
        Self::new(exit_of(&error.name()), message)
    }
}
