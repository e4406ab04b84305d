//! Asks the daemon's own name over the bus, there and back, as a client would.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use zbus::Connection;
use zbus::proxy::{CacheProperties, MethodFlags};

use super::link::Link;
use super::{NAME, PATH};

/// An answer that takes longer is none; it is asked again.
const PATIENCE: Duration = Duration::from_secs(10);

/// The name on the connection that owns it, which it does not keep open.
#[derive(Clone, Debug)]
pub struct OwnName(watch::Receiver<Option<Arc<Link>>>);

impl OwnName {
    pub(super) fn new(link: watch::Receiver<Option<Arc<Link>>>) -> Self {
        Self(link)
    }

    /// Whether it answers; what came to it before has been taken up by then. Where the bus is lost there is nobody to
    /// ask, and nothing that is at fault here.
    pub async fn answers(&self) -> bool {
        let connection = match &*self.0.borrow() {
            Some(link) => link.connection.clone(),
            None => return true,
        };
        let asked = tokio::time::timeout(PATIENCE, ping(&connection)).await;
        matches!(asked, Ok(Ok(()))) || connection.is_closed()
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
    // If another daemon had to be started for it, this one has lost its name.
    let flags = MethodFlags::NO_AUTO_START;
    peer.call_with_flags::<_, _, ()>("Ping", flags, &()).await?;
    Ok(())
}
