//! Has the bus look again who is in which group.

use zbus::fdo::DBusProxy;

use crate::client;

/// dbus 1.12 keeps the groups of whoever is connected: without this, a user who was put into group ganglion since the
/// package came is refused until the next start. What cannot be done is not worth a failure; doctor tells of it.
pub(super) fn reload() {
    let _ = client::block_on(async {
        let connection = client::connect(None).await?;
        let driver = DBusProxy::new(&connection).await?;
        client::at_once(async { Ok(driver.reload_config().await?) }).await
    });
}
