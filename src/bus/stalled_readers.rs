//! Watches clients with unread messages: reports them, and ends the requests of a client that reads nothing for long.
//!
//! `bus_statistics` queries the bus. Where the bus does not answer, every sent message counts as read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use zbus::names::OwnedUniqueName;
use zbus::{Connection, fdo};

use super::accounts::{Accounts, Load, ReadState};
use super::bus_statistics::{PAUSES, outgoing};
use super::departures;
use super::owner::Caller;
use super::shared::Shared;
use crate::journal;

/// The least time between two events about one connection.
const REPORT_PAUSE: Duration = Duration::from_secs(60);

/// Watches each connection that `names` brings, until it has little unread.
pub(super) async fn run(
    connection: Connection,
    shared: Arc<Shared>,
    accounts: Arc<Accounts>,
    mut names: UnboundedReceiver<String>,
) {
    let reported = Arc::new(AtomicBool::new(false));
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
                    reported: reported.clone(),
                    caller: Caller::new(unique),
                }.run());
            }
            Some(_) = watches.join_next() => {}
        }
    }
}

/// The watch of one connection.
struct Watch {
    connection: Connection,
    shared: Arc<Shared>,
    accounts: Arc<Accounts>,
    /// Whether it was reported that the bus refuses the query.
    reported: Arc<AtomicBool>,
    caller: Caller,
}

impl Watch {
    async fn run(self) {
        let stall = self.shared.bus_config().await.stream_stall;
        if let Ok(user) = self.shared.user(&self.connection, &self.caller).await {
            self.accounts.set_user(self.caller.name(), user);
        }
        let [mut pause, longest] = PAUSES;
        let mut last_read = Instant::now();
        let mut reported = None::<(Instant, u64)>;
        let mut ended = false;
        loop {
            self.accounts.begin_query(self.caller.name());
            let left = self.left().await;
            match self.accounts.end_query(self.caller.name(), left) {
                ReadState::Done => return,
                ReadState::Reading => {
                    (pause, last_read, ended) = (PAUSES[0], Instant::now(), false);
                }
                ReadState::Stalled { unread, dropped } => {
                    let late = last_read.elapsed() >= stall;
                    let before = reported.map_or(0, |(_, dropped)| dropped);
                    let news = late && !ended || dropped > before;
                    if news && reported.is_none_or(|(at, _)| at.elapsed() >= REPORT_PAUSE) {
                        self.report(unread, dropped, last_read.elapsed()).await;
                        reported = Some((Instant::now(), dropped));
                    }
                    if late && !ended {
                        departures::end_all(&self.shared, &self.connection, &self.caller).await;
                        ended = true;
                    }
                }
            }
            sleep(pause).await;
            pause = (2 * pause).min(longest);
        }
    }

    async fn report(&self, unread: Load, dropped: u64, since: Duration) {
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
                // Other errors: the connection has left, or the bus does not have the interface.
                let refused = matches!(&error, zbus::Error::FDO(error) if matches!(**error, fdo::Error::AccessDenied(_)));
                if refused && !self.reported.swap(true, Ordering::Relaxed) {
                    journal::bus_untold(&error.to_string());
                }
                Load::default()
            }
        }
    }
}
