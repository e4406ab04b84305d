//! Has the bus look again who is in which group.

use zbus::fdo::DBusProxy;

use crate::client;
use crate::failure::{Exit, Failure};

/// dbus 1.12 keeps the groups of whoever is connected: without this, a user who was put into group ganglion since the
/// package came is refused until the next start. What cannot be done is not worth a failure; doctor tells of it.
pub(super) fn reload() {
    let _ = client::block_on(async {
        let connection = client::connect(None).await?;
        let told = |error: zbus::Error| Failure::new(Exit::Unavailable, error.to_string());
        let bus = DBusProxy::new(&connection).await.map_err(told)?;
        let reloaded = async {
            bus.reload_config()
                .await
                .map_err(|error| told(error.into()))
        };
        client::at_once(reloaded).await
    });
}
