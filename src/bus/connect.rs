//! Keeps the daemon on a bus: when the bus ends and starts again, the daemon reconnects and owns its name again.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use zbus::names::WellKnownName;

use super::NAME;
use super::address::Address;
use super::config::BusConfig;
use super::link::{BusError, Link};
use super::own_name::OwnName;
use super::reload::ReloadCall;
use super::shared::Shared;
use crate::front::Front;
use crate::journal;

/// The first and the longest time between two attempts to reach a lost bus.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];

/// How long the daemon waits for pending answers when it leaves, and how long for the bus to read them: a stuck bus must not
/// keep it.
const PATIENCE: Duration = Duration::from_secs(10);

/// The daemon on its bus.
#[derive(Debug)]
pub struct Bus {
    address: Address,
    /// State that outlives a connection.
    common: Shared,
    /// Absent while the bus is lost.
    link: watch::Sender<Option<Arc<Link>>>,
}

/// Serves the engine of `front` on a bus; the name is owned when it returns. Calls that need the configuration wait until
/// `front` and the bus have one.
///
/// # Errors
/// If there is no bus, or the name cannot be owned.
pub async fn serve(address: &Address, front: impl Into<Front>) -> Result<Bus, BusError> {
    let common = Shared::new(front.into());
    let link = Link::make(address, &common).await?;
    Ok(Bus {
        address: address.clone(),
        common,
        link: watch::Sender::new(Some(Arc::new(link))),
    })
}

impl Bus {
    /// Applies settings of the bus: the first, or new ones.
    pub fn configure(&self, config: BusConfig) {
        self.common.configure(config);
    }

    /// Returns a probe that calls the daemon by its own name.
    #[must_use]
    pub fn own_name(&self) -> OwnName {
        OwnName::new(self.link.subscribe())
    }

    /// Reconnects each time the connection is lost. Requests of callers, and their sessions without a name, end with the
    /// connection; the model stays loaded.
    pub async fn keep(&self) -> Infallible {
        loop {
            let Some(link) = self.link.borrow().clone() else {
                return std::future::pending().await;
            };
            link.connection.closed().await;
            self.link.send_replace(None);
            journal::bus_lost();
            link.shared.lose();
            drop(link);
            let link = self.find().await;
            journal::bus_found(&self.address.to_string());
            self.link.send_replace(Some(Arc::new(link)));
        }
    }

    async fn find(&self) -> Link {
        let [mut pause, longest] = PAUSES;
        let mut reported = String::new();
        loop {
            sleep(pause).await;
            match Link::make(&self.address, &self.common).await {
                Ok(link) => return link,
                Err(error) => {
                    let text = error.to_string();
                    // While a bus starts, it refuses the first attempts: only lasting errors are reported.
                    if pause == longest && text != reported {
                        journal::bus_unavailable(&text);
                        reported = text;
                    }
                }
            }
            pause = (2 * pause).min(longest);
        }
    }

    /// Releases the name, and returns when every earlier call has been answered. Later calls start another daemon, if systemd
    /// may start one.
    pub async fn leave(self) {
        let Some(link) = self.link.send_replace(None) else {
            return;
        };
        let connection = link.connection.clone();
        let name = WellKnownName::from_static_str_unchecked(NAME);
        let _ = connection.release_name(name).await;
        // All calls to the name have been received by now. zbus would drop those that it has not dispatched yet.
        let _ = timeout(PATIENCE, link.shared.accounts.answered()).await;
        let outbox = link.outbox.clone();
        drop(link);
        // Calls in progress keep the connection open.
        connection.graceful_shutdown().await;
        let _ = timeout(PATIENCE, outbox.flushed()).await;
    }

    /// Returns the calls of `Manager.Reload`, for the task that answers them. Until it is called, they are refused.
    #[must_use]
    pub fn take_reloads(&self) -> mpsc::Receiver<ReloadCall> {
        self.common.reloads.take()
    }

    /// Returns when the answers of all ended requests have been read or abandoned.
    pub async fn delivered(&self) {
        self.common.front.delivered().await;
    }
}
