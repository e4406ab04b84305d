//! Answers with a descriptor that the bus sends back, as their callers' connections take none: dbus-daemon drops them and
//! tells the daemon alone, so that the caller would wait for ever.
//!
//! The caller gets an error instead. For the bus that is a second answer, which the project's policy lets through; where
//! it does not, the caller's next call is refused.

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;

use futures_util::StreamExt;
use zbus::message::{Message, Type};
use zbus::names::OwnedUniqueName;
use zbus::{Connection, MatchRule, MessageStream};

use super::Error;
use super::accounts::{BUS, Undelivered};
use super::authorize::Caller;
use super::shared::Shared;

/// What dbus-daemon says of a message with descriptors for a connection without them.
const NOT_SUPPORTED: &str = "org.freedesktop.DBus.Error.NotSupported";
/// Errors that wait for `run`.
const QUEUED: NonZeroUsize = NonZeroUsize::MIN.saturating_add(63);

/// What the bus says of messages that it did not deliver.
pub(super) async fn errors(connection: &Connection) -> zbus::Result<MessageStream> {
    let rule = MatchRule::builder().msg_type(Type::Error).build()?;
    MessageStream::for_match_rule(rule, connection, Some(QUEUED)).await
}

/// Tells callers, until the connection ends.
pub(super) async fn run(connection: Connection, shared: Arc<Shared>, mut errors: MessageStream) {
    while let Some(message) = errors.next().await {
        let Ok(message) = message else { return };
        let header = message.header();
        let from_bus = header.sender().is_some_and(|sender| sender == BUS);
        let is_it = from_bus
            && header
                .error_name()
                .is_some_and(|name| name == NOT_SUPPORTED);
        let Some(serial) = header.reply_serial().filter(|_| is_it) else {
            continue;
        };
        if let Some(call) = shared.accounts.sent_back(serial.get()) {
            // The stream must never wait, or nothing is received.
            let (connection, shared) = (connection.clone(), shared.clone());
            tokio::spawn(async move { tell(&connection, &shared, call).await });
        }
    }
}

/// Ends what the call had begun, and answers it.
async fn tell(connection: &Connection, shared: &Shared, call: Undelivered) {
    let Ok(name) = OwnedUniqueName::try_from(call.caller.as_str()) else {
        return;
    };
    if let Some(id) = shared
        .registry
        .asked_by(&Caller::new(name.clone()), call.serial)
    {
        shared.engine.cancel(id);
    }
    let Some(call) = header_of(&name, call.serial) else {
        return;
    };
    // A caller that has left is noticed elsewhere.
    let _ = connection.reply_dbus_error(&call.header(), error()).await;
}

/// A call with as much in it as an answer takes from it.
fn header_of(caller: &OwnedUniqueName, serial: u32) -> Option<Message> {
    let call = Message::method_call("/", "Unknown").sender(caller);
    call.serial(NonZeroU32::new(serial)?).build(&()).ok()
}

/// What callers read whose connections take no descriptors.
pub(super) fn error() -> Error {
    Error::NotSupported(
        "this connection takes no file descriptors, and the answer has one: ask for them when you connect (your library \
         may call it negotiate_unix_fd or enable_fds), or call Manager.Submit or Session.Submit, whose answers have none"
            .to_owned(),
    )
}
