//! Asks the bus what clients leave unread, and ends what those have who do not read at all.
//!
//! A bus that does not tell (`statistics`) is taken at its best: what was sent counts as read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use zbus::names::OwnedUniqueName;
use zbus::{Connection, fdo};

use super::accounts::{Accounts, Load, Standing};
use super::authorize::Caller;
use super::departure;
use super::shared::Shared;
use super::statistics::{PAUSES, outgoing};
use crate::journal;

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

/// What watches one connection.
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
                        departure::end_all(&self.shared, &self.connection, &self.caller).await;
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
