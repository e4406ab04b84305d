//! The user behind each connection, and whether it is an operator. The bus and the system are queried once for each
//! connection.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::OnceCell;
use tokio::time::timeout;
use zbus::Connection;

use super::error::Error;
use super::owner::Caller;
use crate::front::Front;

/// How long a property waits for the system's answer about a user: other calls wait meanwhile.
const PATIENCE: Duration = Duration::from_millis(200);

/// Facts about one connection.
#[derive(Debug, Default)]
struct Known {
    user: OnceCell<u32>,
    is_operator: OnceCell<bool>,
}

/// Facts about the connections that have called.
#[derive(Debug, Default)]
pub(super) struct Users(Mutex<HashMap<Caller, Arc<Known>>>);

impl Users {
    /// Returns the user id of a connection.
    pub(super) async fn of(&self, connection: &Connection, caller: &Caller) -> Result<u32, Error> {
        let known = self.known(caller);
        let user = known
            .user
            .get_or_try_init(|| query(connection, caller))
            .await;
        user.copied().map_err(|error| {
            self.forget(caller);
            Error::Bus(error)
        })
    }

    /// Whether a connection is an operator's. Until the system has answered, it is not.
    pub(super) async fn is_operator(
        &self,
        front: &Front,
        connection: &Connection,
        caller: &Caller,
    ) -> bool {
        let user = match self.of(connection, caller).await {
            Ok(0) => return true,
            Ok(user) => user,
            Err(_) => return false,
        };
        let known = self.known(caller);
        if let Some(known) = known.is_operator.get() {
            return *known;
        }
        // The system's answer can take long. The query goes on after the wait for it has ended.
        let front = front.clone();
        let answer = tokio::spawn(async move {
            let query = || front.is_operator(user);
            *known.is_operator.get_or_init(query).await
        });
        matches!(timeout(PATIENCE, answer).await, Ok(Ok(true)))
    }

    /// Returns the entry of a connection. It is made before the bus is queried, so that a departure removes it.
    fn known(&self, caller: &Caller) -> Arc<Known> {
        self.0.lock().entry(caller.clone()).or_default().clone()
    }

    /// Removes a connection that has left.
    pub(super) fn forget(&self, caller: &Caller) {
        self.0.lock().remove(caller);
    }
}

async fn query(connection: &Connection, caller: &Caller) -> zbus::Result<u32> {
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
