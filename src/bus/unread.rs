//! Asks the bus what clients leave unread, and ends what those have who do not read at all.
//!
//! dbus-daemon tells it to those whom its policy lets ask (`org.freedesktop.DBus.Debug.Stats`), which the daemon's own
//! policy file does. A bus that does not tell is taken at its best: what was sent counts as read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use zbus::names::OwnedUniqueName;
use zbus::{Connection, fdo};

use super::Error;
use super::accounts::{Accounts, BUS, Load, Standing};
use super::authorize::Caller;
use super::proxy::Info;
use super::shared::Shared;
use crate::journal;

/// Between two questions about one connection: at first, and at most.
const PAUSES: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(500)];
/// How long a long answer waits until shorter ones are read.
const PATIENCE: Duration = Duration::from_secs(5);
/// The least time between two events about one connection.
const TOLD: Duration = Duration::from_secs(60);

/// Asks about each connection that `names` brings, until little is unread of it.
pub(super) async fn run(
    connection: Connection,
    shared: Arc<Shared>,
    accounts: Arc<Accounts>,
    mut names: UnboundedReceiver<String>,
) {
    let silent = Arc::new(AtomicBool::new(false));
    let mut watches = JoinSet::new();
    loop {
        tokio::select! {
            name = names.recv() => {
                let Some(name) = name else { return };
                let Ok(unique) = OwnedUniqueName::try_from(name.as_str()) else { continue };
                watches.spawn(Watch {
                    connection: connection.clone(),
                    shared: shared.clone(),
                    accounts: accounts.clone(),
                    silent: silent.clone(),
                    caller: Caller::new(unique),
                }.run());
            }
            Some(_) = watches.join_next() => {}
        }
    }
}

/// Of one connection.
struct Watch {
    connection: Connection,
    shared: Arc<Shared>,
    accounts: Arc<Accounts>,
    /// Whether it was told that the bus says nothing.
    silent: Arc<AtomicBool>,
    caller: Caller,
}

impl Watch {
    async fn run(self) {
        let stall = self.shared.config().await.stream_stall;
        if let Ok(user) = self.shared.user(&self.connection, &self.caller).await {
            self.accounts.know(self.caller.name(), user);
        }
        let [mut pause, longest] = PAUSES;
        let (mut taken, mut told) = (Instant::now(), None::<(Instant, u64)>);
        let mut ended = false;
        loop {
            self.accounts.ask(self.caller.name());
            let left = self.left().await;
            match self.accounts.told(self.caller.name(), left) {
                Standing::Settled => return,
                Standing::Taking => (pause, taken, ended) = (PAUSES[0], Instant::now(), false),
                Standing::Still { unread, dropped } => {
                    let late = taken.elapsed() >= stall;
                    let news = late && !ended || dropped > told.map_or(0, |(_, dropped)| dropped);
                    if news && told.is_none_or(|(at, _)| at.elapsed() >= TOLD) {
                        self.tell(unread, dropped, taken.elapsed()).await;
                        told = Some((Instant::now(), dropped));
                    }
                    if late && !ended {
                        self.shared.end_all(&self.connection, &self.caller).await;
                        ended = true;
                    }
                }
            }
            sleep(pause).await;
            pause = (2 * pause).min(longest);
        }
    }

    async fn tell(&self, unread: Load, dropped: u64, since: Duration) {
        let user = self.shared.user(&self.connection, &self.caller).await;
        let Ok(user) = user else { return };
        journal::answers_unread(
            self.caller.name(),
            user,
            unread.bytes,
            unread.descriptors,
            dropped,
            since.as_secs_f32(),
        );
    }

    async fn left(&self) -> Load {
        match outgoing(&self.connection, self.caller.name()).await {
            Ok(left) => left,
            Err(error) => {
                // One that has left is nobody; a bus without this interface has other ways.
                let refused = matches!(&error, zbus::Error::FDO(error) if matches!(**error, fdo::Error::AccessDenied(_)));
                if refused && !self.silent.swap(true, Ordering::Relaxed) {
                    journal::bus_untold(&error.to_string());
                }
                Load::default()
            }
        }
    }
}

/// Returns when the bus holds nothing for a connection, whoever sent it; an error if that takes too long.
pub(super) async fn nothing(connection: &Connection, caller: &Caller) -> Result<(), Error> {
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
async fn outgoing(connection: &Connection, name: &str) -> zbus::Result<Load> {
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
