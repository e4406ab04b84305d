//! Answers with a descriptor that the bus returns, because the caller's connection takes none. dbus-daemon drops such an
//! answer and reports that to the daemon alone, so the caller would wait for ever.
//!
//! The caller gets an error instead. For the bus that is a second answer, which the project's policy file allows. Where the
//! policy does not, the next call of the caller is refused.

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;

use futures_util::StreamExt;
use zbus::message::{Message, Type};
use zbus::names::OwnedUniqueName;
use zbus::{Connection, MatchRule, MessageStream};

use super::accounts::{BUS, ReturnedAnswer};
use super::error::Error;
use super::owner::Caller;
use super::shared::Shared;

/// The error of dbus-daemon for a message with descriptors to a connection without them.
const NOT_SUPPORTED: &str = "org.freedesktop.DBus.Error.NotSupported";
/// Errors that may wait for `run`.
const QUEUED: NonZeroUsize = NonZeroUsize::MIN.saturating_add(63);

/// Returns the errors by which the bus reports undelivered messages.
pub(super) async fn errors(connection: &Connection) -> zbus::Result<MessageStream> {
    let rule = MatchRule::builder().msg_type(Type::Error).build()?;
    MessageStream::for_match_rule(rule, connection, Some(QUEUED)).await
}

/// Answers the callers of returned answers, until the connection ends.
pub(super) async fn run(connection: Connection, shared: Arc<Shared>, mut errors: MessageStream) {
    while let Some(message) = errors.next().await {
        let Ok(message) = message else { return };
        let header = message.header();
        let from_bus = header.sender().is_some_and(|sender| sender == BUS);
        let is_returned = from_bus
            && header
                .error_name()
                .is_some_and(|name| name == NOT_SUPPORTED);
        let Some(serial) = header.reply_serial().filter(|_| is_returned) else {
            continue;
        };
        if let Some(call) = shared.accounts.returned(serial.get()) {
            // The stream must never wait, or nothing is received.
            let (connection, shared) = (connection.clone(), shared.clone());
            tokio::spawn(async move { refuse(&connection, &shared, call).await });
        }
    }
}

/// Cancels the request that the call made, and answers the call with an error.
async fn refuse(connection: &Connection, shared: &Shared, call: ReturnedAnswer) {
    let Ok(name) = OwnedUniqueName::try_from(call.caller.as_str()) else {
        return;
    };
    let caller = Caller::new(name.clone());
    let request = shared.registry.request_of_call(&caller, call.serial);
    if let Some(id) = request {
        shared.engine.cancel(id);
    }
    let Some(call) = header_of(&name, call.serial) else {
        return;
    };
    // `departures` notices a caller that has left.
    let _ = connection.reply_dbus_error(&call.header(), error()).await;
}

/// Returns a call with as much of its header as an answer needs.
fn header_of(caller: &OwnedUniqueName, serial: u32) -> Option<Message> {
    let call = Message::method_call("/", "Unknown").sender(caller);
    call.serial(NonZeroU32::new(serial)?).build(&()).ok()
}

const WITHOUT_DESCRIPTORS: &str = "this connection takes no file descriptors, and the answer has one: reconnect with \
                                   file-descriptor passing enabled (your library may call it negotiate_unix_fd or \
                                   enable_fds)";

/// Returns the error of a request that a connection without descriptors makes. Also used where the method is not known.
pub(super) fn error() -> Error {
    Error::NotSupported(format!(
        "{WITHOUT_DESCRIPTORS}, or call Manager.Submit or Session.Submit for requests"
    ))
}

/// Returns the error of a hold by a connection without descriptors.
pub(super) fn error_of_hold() -> Error {
    Error::NotSupported(WITHOUT_DESCRIPTORS.to_owned())
}
