//! Keeps the daemon on a bus: where the bus ends, and starts again, the name is owned again.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use zbus::names::WellKnownName;

use super::address::Address;
use super::link::{BusError, Link};
use super::own_name::OwnName;
use super::reload::ReloadCall;
use super::shared::Shared;
use super::{BusConfig, NAME};
use crate::engine::Handle;
use crate::journal;

/// So long passes between two tries to reach a bus that was lost: at first, and at most.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];

/// How long what has come is waited for when the daemon leaves, and how long what is to be written: a bus that reads
/// nothing must not keep it.
const PATIENCE: Duration = Duration::from_secs(10);

/// The daemon on its bus.
#[derive(Debug)]
pub struct Bus {
    address: Address,
    /// What outlives a connection.
    common: Shared,
    /// Absent while the bus is lost.
    link: watch::Sender<Option<Arc<Link>>>,
}

/// Serves `engine` on a bus. When it returns the name is owned; what depends on the configuration is answered once
/// there is one.
///
/// # Errors
/// If there is no bus, or the name cannot be owned.
pub async fn serve(address: &Address, engine: Handle) -> Result<Bus, BusError> {
    let common = Shared::new(engine);
    let link = Link::make(address, &common).await?;
    Ok(Bus {
        address: address.clone(),
        common,
        link: watch::Sender::new(Some(Arc::new(link))),
    })
}

impl Bus {
    /// Puts a configuration in force: the first, or another in its place.
    pub fn configure(&self, config: BusConfig) {
        self.common.configure(config);
    }

    /// The daemon's name, to be asked whether it answers.
    #[must_use]
    pub fn own_name(&self) -> OwnName {
        OwnName::new(self.link.subscribe())
    }

    /// Connects again whenever the connection is lost: with it went who called, their sessions and their requests; the
    /// model stays.
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
        let mut told = String::new();
        loop {
            sleep(pause).await;
            match Link::make(&self.address, &self.common).await {
                Ok(link) => return link,
                Err(error) => {
                    let text = error.to_string();
                    // While a bus starts, the first tries are refused: only what lasts is worth a word.
                    if pause == longest && text != told {
                        journal::bus_unavailable(&text);
                        told = text;
                    }
                }
            }
            pause = (2 * pause).min(longest);
        }
    }

    /// Gives the name back, and returns when every call that came before has been answered. Calls from then on start
    /// another daemon, where systemd may.
    pub async fn leave(self) {
        let Some(link) = self.link.send_replace(None) else {
            return;
        };
        let connection = link.connection.clone();
        let name = WellKnownName::from_static_str_unchecked(NAME);
        let _ = connection.release_name(name).await;
        // All that came for the name has been read by now. zbus would drop what it has not yet taken up.
        let _ = timeout(PATIENCE, link.shared.accounts.answered()).await;
        let outbox = link.outbox.clone();
        drop(link);
        // Each call that is being answered keeps the connection.
        connection.graceful_shutdown().await;
        let _ = timeout(PATIENCE, outbox.flushed()).await;
    }

    /// The calls of `Manager.Reload`, for one who answers them; they are refused until somebody does.
    #[must_use]
    pub fn take_reloads(&self) -> mpsc::Receiver<ReloadCall> {
        self.common.reloads.take()
    }

    /// Returns when every request that has ended was read, or given up on.
    pub async fn delivered(&self) {
        self.common.delivered().await;
    }
}
