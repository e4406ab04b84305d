//! How objects go: with their owner, when that leaves the bus, or when their time is over. The engine ends its part first.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::sync::mpsc::UnboundedReceiver;
use zbus::Connection;
use zbus::fdo::{DBusProxy, NameOwnerChangedStream};
use zbus::names::BusName;

use super::authorize::Caller;
use super::request::Request;
use super::session::Session;
use super::shared::Shared;

/// The least time between two sweeps of finished requests.
const SWEEP: Duration = Duration::from_millis(10);

/// Ends what connections own as they leave.
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

/// Asks the bus once more whether those are there who own something since a moment ago: the signal that they left may have
/// come before.
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
            // If the bus is lost, so is the caller.
            if !owner.await.unwrap_or(false) {
                leave(&shared, &connection, &caller).await;
            }
        });
    }
}

/// A connection has left.
async fn leave(shared: &Shared, connection: &Connection, caller: &Caller) {
    shared.forget(caller);
    end_all(shared, connection, caller).await;
}

/// Ends everything that a connection owns.
pub(super) async fn end_all(shared: &Shared, connection: &Connection, caller: &Caller) {
    shared.engine.leave(caller.name());
    let Some(belongings) = shared.registry.take(caller) else {
        return;
    };
    shared.cancel(&belongings);
    for session in belongings.sessions.into_values() {
        Session::let_go(shared, connection, caller, session).await;
    }
    let finished = belongings.finished.into_iter().map(|(id, _)| id);
    for id in belongings.running.into_keys().chain(finished) {
        Request::remove(connection, id).await;
    }
}

/// Takes away finished requests when their time is over, until the task is stopped.
pub(super) async fn sweep(connection: Connection, shared: Arc<Shared>) {
    let linger = shared.config().await.finished_linger;
    let mut ticks = tokio::time::interval((linger / 4).max(SWEEP));
    loop {
        let now = ticks.tick().await;
        for id in shared.registry.expire(now.into_std()) {
            Request::remove(&connection, id).await;
        }
    }
}
