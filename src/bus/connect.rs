//! Puts the daemon on a bus: objects first, then watchers, and the name last.

use std::sync::Arc;

use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use zbus::Connection;
use zbus::fdo::{DBusProxy, NameOwnerChangedStream, RequestNameFlags};
use zbus::names::{BusName, WellKnownName};

use super::address::Address;
use super::authorize::Caller;
use super::diagnostics::Diagnostics;
use super::manager::Manager;
use super::own_name::OwnName;
use super::reload::ReloadCall;
use super::shared::Shared;
use super::{BusConfig, NAME, PATH, publish};
use crate::engine::Handle;

/// Why the daemon could not be put on the bus.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    #[error("cannot connect to the {address}: {source}; is dbus-daemon running there?")]
    Connect {
        address: Address,
        source: zbus::Error,
    },
    #[error("{NAME} is owned by {owner} already; stop it first, or choose another bus with --bus")]
    NameTaken { owner: String },
    #[error(
        "the bus does not let this user own {NAME}: {0}; install config/org.ganglion.Llm1.conf and run as its user"
    )]
    NameRefused(zbus::Error),
}

/// The daemon on its bus; dropping it stops the watchers.
#[derive(Debug)]
pub struct Bus {
    connection: Arc<Connection>,
    shared: Arc<Shared>,
    watchers: [JoinHandle<()>; 3],
}

/// Serves `engine` on a bus. When it returns the name is owned; what depends on the configuration is answered once
/// there is one.
///
/// # Errors
/// If there is no bus, or the name cannot be owned.
pub async fn serve(address: &Address, engine: Handle) -> Result<Bus, BusError> {
    let shared = Arc::new(Shared::new(engine));
    let failed = |source| BusError::Connect {
        address: address.clone(),
        source,
    };
    let manager = Manager {
        shared: shared.clone(),
    };
    let diagnostics = Diagnostics {
        shared: shared.clone(),
    };
    let connection = address
        .builder()
        .serve_at(PATH, manager)
        .serve_at(PATH, diagnostics)
        .build()
        .await
        .map_err(failed)?;
    let bus = DBusProxy::new(&connection).await.map_err(failed)?;
    // Whoever leaves has no name any more; names that only change hands are of no interest.
    let leaving = bus
        .receive_name_owner_changed_with_args(&[(2, "")])
        .await
        .map_err(failed)?;
    let watchers = [
        tokio::spawn(watch_leaving(connection.clone(), shared.clone(), leaving)),
        tokio::spawn(publish::run(connection.clone(), shared.engine.status())),
        tokio::spawn(sweep(connection.clone(), shared.clone())),
    ];
    let served = Bus {
        connection: Arc::new(connection),
        shared,
        watchers,
    };
    served.take_name(&bus).await?;
    Ok(served)
}

impl Bus {
    async fn take_name(&self, bus: &DBusProxy<'_>) -> Result<(), BusError> {
        let name = WellKnownName::from_static_str_unchecked(NAME);
        let flags = RequestNameFlags::DO_NOT_QUEUE;
        match self
            .connection
            .request_name_with_flags(name.clone(), flags)
            .await
        {
            Ok(_) => Ok(()),
            Err(zbus::Error::NameTaken) => Err(BusError::NameTaken {
                owner: describe_owner(bus, name.into()).await,
            }),
            Err(error) => Err(BusError::NameRefused(error)),
        }
    }

    /// Puts a configuration in force: the first, or another in its place.
    pub fn configure(&self, config: BusConfig) {
        self.shared.configure(config);
    }

    /// The daemon's name, to be asked whether it answers.
    #[must_use]
    pub fn own_name(&self) -> OwnName {
        OwnName::new(&self.connection)
    }

    /// Gives the name back, and returns when every call that came before has been answered. Calls from then on start
    /// another daemon, where systemd may.
    pub async fn leave(self) {
        let connection = Connection::clone(&self.connection);
        // What was sent before this has been taken up when it is answered.
        self.own_name().answers().await;
        let name = WellKnownName::from_static_str_unchecked(NAME);
        let _ = connection.release_name(name).await;
        drop(self);
        // Each call that is being answered keeps the connection.
        connection.graceful_shutdown().await;
    }

    /// The calls of `Manager.Reload`, for one who answers them; they are refused until somebody does.
    #[must_use]
    pub fn take_reloads(&self) -> mpsc::Receiver<ReloadCall> {
        self.shared.reloads.take()
    }

    /// Returns when the connection to the bus is lost.
    pub async fn closed(&self) {
        self.connection.closed().await;
    }

    /// Returns when every request that has ended was read, or given up on.
    pub async fn delivered(&self) {
        self.shared.delivered().await;
    }

    /// The daemon's own connection.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        for watcher in &self.watchers {
            watcher.abort();
        }
    }
}

async fn sweep(connection: Connection, shared: Arc<Shared>) {
    shared.sweep(&connection).await;
}

async fn describe_owner(bus: &DBusProxy<'_>, name: BusName<'_>) -> String {
    let Ok(owner) = bus.get_name_owner(name).await else {
        return "another connection".to_owned();
    };
    match bus
        .get_connection_unix_process_id((*owner).clone().into())
        .await
    {
        Ok(process) => format!("process {process} ({owner})"),
        Err(_) => owner.to_string(),
    }
}

async fn watch_leaving(
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
            tokio::spawn(async move { shared.leave(&connection, &caller).await });
        }
    }
}
