//! What the bus holds for connections that have not read it. dbus-daemon tells it to those whom its policy lets ask
//! (`org.freedesktop.DBus.Debug.Stats`), which the daemon's own policy file does.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use zbus::Connection;

use super::Error;
use super::accounts::{BUS, Load};
use super::authorize::Caller;
use super::proxy::Info;

/// So long passes between two questions about one connection: at first, and at most.
pub(super) const PAUSES: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(500)];
/// How long a long answer waits until shorter ones are read.
const PATIENCE: Duration = Duration::from_secs(5);

/// Returns when the bus holds nothing for a connection, whoever sent it; an error if that takes too long.
pub(super) async fn nothing_held(connection: &Connection, caller: &Caller) -> Result<(), Error> {
    let until = Instant::now() + PATIENCE;
    let [mut pause, longest] = PAUSES;
    loop {
        // A bus that does not tell is taken at its best.
        let left = outgoing(connection, caller.name())
            .await
            .unwrap_or_default();
        if left.bytes == 0 {
            return Ok(());
        }
        if Instant::now() >= until {
            let why = "this connection has not read what it was sent before; read it first";
            return Err(Error::QuotaExceeded(why.to_owned()));
        }
        sleep(pause).await;
        pause = (2 * pause).min(longest);
    }
}

/// What the bus holds for a connection.
pub(super) async fn outgoing(connection: &Connection, name: &str) -> zbus::Result<Load> {
    let told = statistics(connection, name).await?;
    Ok(Load {
        bytes: number(&told, "OutgoingBytes"),
        descriptors: number(&told, "OutgoingFDs"),
    })
}

/// Bytes of the daemon's own messages that the bus holds for others; 0 if it does not tell.
pub(super) async fn held_of_own(connection: &Connection) -> usize {
    let Some(own) = connection.unique_name() else {
        return 0;
    };
    let told = statistics(connection, own).await;
    told.map_or(0, |told| number(&told, "IncomingBytes"))
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

fn number(told: &Info, key: &str) -> usize {
    let number = told.get(key).and_then(|value| u32::try_from(value).ok());
    number.map_or(0, |number| number as usize)
}
