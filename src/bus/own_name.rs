//! A probe of the daemon: it calls the daemon's own name over the bus, as a client would.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use zbus::Connection;
use zbus::proxy::{CacheProperties, MethodFlags};

use super::link::Link;
use super::{NAME, PATH};

/// The longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The daemon's name on its connection, which the probe does not keep open.
#[derive(Clone, Debug)]
pub struct OwnName(watch::Receiver<Option<Arc<Link>>>);

impl OwnName {
    pub(super) fn new(link: watch::Receiver<Option<Arc<Link>>>) -> Self {
        Self(link)
    }

    /// Whether the daemon answers; it has then received all earlier calls. Also `true` while the bus is lost, which is not a
    /// fault of the daemon.
    pub async fn answers(&self) -> bool {
        let connection = match &*self.0.borrow() {
            Some(link) => link.connection.clone(),
            None => return true,
        };
        let answered = tokio::time::timeout(PATIENCE, ping(&connection)).await;
        matches!(answered, Ok(Ok(()))) || connection.is_closed()
    }
}

async fn ping(connection: &Connection) -> zbus::Result<()> {
    let peer: zbus::Proxy<'_> = zbus::proxy::Builder::new(connection)
        .destination(NAME)
        .path(PATH)
        .interface("org.freedesktop.DBus.Peer")
        .cache_properties(CacheProperties::No)
        .build()
        .await?;
    // A daemon that has lost its name must not start another one.
    let flags = MethodFlags::NO_AUTO_START;
    peer.call_with_flags::<_, _, ()>("Ping", flags, &()).await?;
    Ok(())
}
