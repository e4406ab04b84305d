//! Queries of the messages that the bus holds for connections, by `org.freedesktop.DBus.Debug.Stats`. The daemon's policy
//! file allows it to call that interface of dbus-daemon.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use zbus::Connection;

use super::accounts::{BUS, Load};
use super::error::Error;
use super::owner::Caller;
use super::proxy::Info;

/// The first and the longest time between two queries about one connection.
pub(super) const PAUSES: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(500)];
/// How long a long answer waits until the connection has read all earlier messages.
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns when the bus holds no message for a connection, from any sender; an error if that takes too long.
pub(super) async fn nothing_held(connection: &Connection, caller: &Caller) -> Result<(), Error> {
    let until = Instant::now() + PATIENCE;
    let [mut pause, longest] = PAUSES;
    loop {
        // Without an answer from the bus, everything counts as read.
        let left = outgoing(connection, caller.name())
            .await
            .unwrap_or_default();
        if left.bytes == 0 {
            return Ok(());
        }
        if Instant::now() >= until {
            let why = "this connection has unread messages; read them first";
            return Err(Error::QuotaExceeded(why.to_owned()));
        }
        sleep(pause).await;
        pause = (2 * pause).min(longest);
    }
}

/// Returns the load of the messages that the bus holds for a connection.
pub(super) async fn outgoing(connection: &Connection, name: &str) -> zbus::Result<Load> {
    let statistics = statistics(connection, name).await?;
    Ok(Load {
        bytes: number(&statistics, "OutgoingBytes"),
        descriptors: number(&statistics, "OutgoingFDs"),
    })
}

/// Returns the bytes of the daemon's own messages that the bus holds; 0 if the bus does not say.
pub(super) async fn held_from_daemon(connection: &Connection) -> usize {
    let Some(own) = connection.unique_name() else {
        return 0;
    };
    let statistics = statistics(connection, own).await;
    statistics.map_or(0, |statistics| number(&statistics, "IncomingBytes"))
}

async fn statistics(connection: &Connection, name: &str) -> zbus::Result<Info> {
    let reply = connection
        .call_method(
            Some(BUS),
            "/org/freedesktop/DBus",
            Some("org.freedesktop.DBus.Debug.Stats"),
            "GetConnectionStats",
            &name,
        )
        .await?;
    reply.body().deserialize()
}

fn number(statistics: &Info, key: &str) -> usize {
    let number = statistics
        .get(key)
        .and_then(|value| u32::try_from(value).ok());
    number.map_or(0, |number| number as usize)
}
