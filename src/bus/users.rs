//! Which user is behind a connection, and whether that operates the daemon: the bus and the system know, and are asked once
//! for as long as the connection lasts.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::OnceCell;
use tokio::time::timeout;
use zbus::Connection;

use super::Error;
use super::authorize::Caller;
use super::groups::{ADMIN, is_member};

/// How long a property waits for the system's word on a user: other calls wait meanwhile.
const PATIENCE: Duration = Duration::from_millis(200);

/// What is known of a connection.
#[derive(Debug, Default)]
struct Known {
    user: OnceCell<u32>,
    /// Whether that is root or one of `ADMIN`.
    operates: OnceCell<bool>,
}

/// What was asked.
#[derive(Debug, Default)]
pub(super) struct Users(Mutex<HashMap<Caller, Arc<Known>>>);

impl Users {
    /// The user id of a connection.
    pub(super) async fn of(&self, connection: &Connection, caller: &Caller) -> Result<u32, Error> {
        let known = self.known(caller);
        let user = known.user.get_or_try_init(|| ask(connection, caller)).await;
        user.copied().map_err(|error| {
            self.forget(caller);
            Error::Bus(error)
        })
    }

    /// Whether a connection is root's or an operator's. As long as the system does not say so, it is neither.
    pub(super) async fn operates(&self, connection: &Connection, caller: &Caller) -> bool {
        let user = match self.of(connection, caller).await {
            Ok(0) => return true,
            Ok(user) => user,
            Err(_) => return false,
        };
        let known = self.known(caller);
        if let Some(operates) = known.operates.get() {
            return *operates;
        }
        // The system's users may be kept anywhere: asking can take time, and goes on where nobody waits for it any more.
        let asking = tokio::spawn(async move {
            let ask = || async move {
                let member = tokio::task::spawn_blocking(move || is_member(user, ADMIN));
                member.await.unwrap_or(false)
            };
            *known.operates.get_or_init(ask).await
        });
        matches!(timeout(PATIENCE, asking).await, Ok(Ok(true)))
    }

    /// Its place is made before anybody is asked: it can only leave, and be forgotten, after that.
    fn known(&self, caller: &Caller) -> Arc<Known> {
        self.0.lock().entry(caller.clone()).or_default().clone()
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
