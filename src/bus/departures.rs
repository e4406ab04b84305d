//! Removes objects: when their owner leaves the bus, or when they expire. The engine ends its part first.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::mpsc::UnboundedReceiver;
use zbus::Connection;
use zbus::fdo::{DBusProxy, NameOwnerChangedStream};
use zbus::names::BusName;

use super::owner::Caller;
use super::request::Request;
use super::session::Session;
use super::shared::Shared;

/// The least time between two sweeps of finished requests.
const SWEEP: Duration = Duration::from_millis(10);

/// Ends the sessions and requests of connections that leave.
pub(super) async fn watch(
    connection: Connection,
    shared: Arc<Shared>,
    mut leaving: NameOwnerChangedStream,
) {
    while let Some(signal) = leaving.next().await {
        let Ok(args) = signal.args() else { continue };
        if let BusName::Unique(name) = args.name() {
            let caller = Caller::new(name.to_owned().into());
            // Removing objects takes locks; this stream must never wait, or nothing is received.
            let (shared, connection) = (shared.clone(), connection.clone());
            tokio::spawn(async move { leave(&shared, &connection, &caller).await });
        }
    }
}

/// Checks that the connections in `newcomers`, which have just become owners, are still there: the signal of their departure
/// may have arrived before.
pub(super) async fn confirm(
    connection: Connection,
    shared: Arc<Shared>,
    mut newcomers: UnboundedReceiver<Caller>,
) {
    while let Some(caller) = newcomers.recv().await {
        let (shared, connection) = (shared.clone(), connection.clone());
        tokio::spawn(async move {
            let owner = async {
                let bus = DBusProxy::new(&connection).await?;
                Ok::<_, zbus::Error>(bus.name_has_owner(caller.bus_name()).await?)
            };
            // Without a bus there is no caller.
            if !owner.await.unwrap_or(false) {
                leave(&shared, &connection, &caller).await;
            }
        });
    }
}

/// Ends everything of a connection that has left.
async fn leave(shared: &Shared, connection: &Connection, caller: &Caller) {
    shared.forget(caller);
    end_all(shared, connection, caller).await;
}

/// Ends everything that a connection owns.
pub(super) async fn end_all(shared: &Shared, connection: &Connection, caller: &Caller) {
    shared.engine.leave(&caller.connection_name());
    let Some(belongings) = shared.registry.take(caller) else {
        return;
    };
    shared.cancel(&belongings);
    for session in belongings.sessions.into_values() {
        Session::release(shared, connection, caller, session).await;
    }
    let finished = belongings.finished.into_iter().map(|(id, _)| id);
    for id in belongings.running.into_keys().chain(finished) {
        Request::remove(connection, id).await;
    }
}

/// Removes finished requests that have expired, until the task is stopped.
pub(super) async fn sweep(connection: Connection, shared: Arc<Shared>) {
    let linger = shared.bus_config().await.finished_linger;
    let mut ticks = tokio::time::interval((linger / 4).max(SWEEP));
    loop {
        let now = ticks.tick().await;
        for id in shared.registry.expire(now.into_std()) {
            Request::remove(&connection, id).await;
        }
    }
}
