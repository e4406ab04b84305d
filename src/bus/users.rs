//! Which user is behind a connection: the bus knows, and is asked once for as long as the connection lasts.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OnceCell;
use zbus::Connection;

use super::Error;
use super::authorize::Caller;

/// What was asked of the bus.
#[derive(Debug, Default)]
pub(super) struct Users(Mutex<HashMap<Caller, Arc<OnceCell<u32>>>>);

impl Users {
    /// The user id of a connection.
    pub(super) async fn of(&self, connection: &Connection, caller: &Caller) -> Result<u32, Error> {
        // Its place is made before the bus is asked: it can only leave, and be forgotten, after that.
        let place = self.0.lock().entry(caller.clone()).or_default().clone();
        let user = place.get_or_try_init(|| ask(connection, caller)).await;
        user.copied().map_err(|error| {
            self.forget(caller);
            Error::Bus(error)
        })
    }

    /// It has left.
    pub(super) fn forget(&self, caller: &Caller) {
        self.0.lock().remove(caller);
    }
}

async fn ask(connection: &Connection, caller: &Caller) -> zbus::Result<u32> {
    let bus = "org.freedesktop.DBus";
    let reply = connection
        .call_method(
            Some(bus),
            "/org/freedesktop/DBus",
            Some(bus),
            "GetConnectionUnixUser",
            &caller.bus_name(),
        )
        .await?;
    reply.body().deserialize()
}
