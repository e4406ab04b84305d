//! One connection to the bus: the objects first, then those who watch it, and the name last.

use std::sync::Arc;

use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::task::JoinSet;
use zbus::Connection;
use zbus::fdo::{DBusProxy, RequestNameFlags};
use zbus::names::{BusName, OwnedUniqueName, WellKnownName};

use super::accounts::Accounts;
use super::address::Address;
use super::authorize::Caller;
use super::departure;
use super::diagnostics::Diagnostics;
use super::gate::{self, Gate};
use super::manager::Manager;
use super::registry::Registry;
use super::shared::Shared;
use super::transport::{BusSocket, Outbox, Refused};
use super::{NAME, PATH, publish, undelivered, unread};

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
        "the bus does not let this user own {NAME}: {0}; reinstall the package, and run gangliond as the user that its D-Bus policy names"
    )]
    NameRefused(zbus::Error),
}

/// A connection that owns the name; dropping it stops those who watch it.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) connection: Connection,
    pub(super) shared: Arc<Shared>,
    pub(super) outbox: Arc<Outbox>,
    /// Aborted when it is dropped.
    _watchers: JoinSet<()>,
}

impl Link {
    /// Connects, serves what `common` knows of on a connection of its own, and takes the name.
    pub(super) async fn make(address: &Address, common: &Shared) -> Result<Self, BusError> {
        let failed = |source| BusError::Connect {
            address: address.clone(),
            source,
        };
        let (accounts, questions) = Accounts::new();
        let (registry, newcomers) = Registry::new();
        let shared = Arc::new(common.on(accounts.clone(), registry));
        let target = address.target().map_err(failed)?;
        let manager = Manager {
            shared: shared.clone(),
        };
        let diagnostics = Diagnostics {
            shared: shared.clone(),
        };
        let (gate, answers) = Gate::new(shared.clone(), &manager, &diagnostics);
        let socket = BusSocket::connect(&target, accounts.clone(), Arc::new(gate)).await;
        let (socket, refused) = socket.map_err(failed)?;
        let outbox = socket.outbox();
        let connection = zbus::connection::Builder::socket(socket)
            .serve_at(PATH, manager)
            .serve_at(PATH, diagnostics)
            .build()
            .await
            .map_err(failed)?;
        if let Some(own) = connection.unique_name() {
            accounts.set_own(own);
        }
        let errors = undelivered::errors(&connection).await.map_err(failed)?;
        let bus = DBusProxy::new(&connection).await.map_err(failed)?;
        // Whoever leaves has no name any more; names that only change hands are of no interest.
        let leaving = bus
            .receive_name_owner_changed_with_args(&[(2, "")])
            .await
            .map_err(failed)?;
        let mut watchers = JoinSet::new();
        watchers.spawn(refuse(connection.clone(), refused));
        watchers.spawn(gate::answer(connection.clone(), answers));
        watchers.spawn(know(connection.clone(), shared.clone(), questions.whose));
        watchers.spawn(unread::run(
            connection.clone(),
            shared.clone(),
            accounts,
            questions.unread,
        ));
        watchers.spawn(undelivered::run(connection.clone(), shared.clone(), errors));
        watchers.spawn(departure::watch(
            connection.clone(),
            shared.clone(),
            leaving,
        ));
        watchers.spawn(publish::run(connection.clone(), shared.engine.status()));
        watchers.spawn(departure::confirm(
            connection.clone(),
            shared.clone(),
            newcomers,
        ));
        watchers.spawn(departure::sweep(connection.clone(), shared.clone()));
        take_name(&connection, &bus).await?;
        Ok(Self {
            connection,
            shared,
            outbox,
            _watchers: watchers,
        })
    }
}

async fn take_name(connection: &Connection, bus: &DBusProxy<'_>) -> Result<(), BusError> {
    let name = WellKnownName::from_static_str_unchecked(NAME);
    let flags = RequestNameFlags::DO_NOT_QUEUE;
    match connection
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

/// Answers the calls that went no further than the socket.
async fn refuse(connection: Connection, mut refused: mpsc::Receiver<Refused>) {
    while let Some(Refused { call, why }) = refused.recv().await {
        let error = zbus::fdo::Error::LimitsExceeded(why);
        if connection
            .reply_dbus_error(&call.header(), error)
            .await
            .is_err()
        {
            return;
        }
    }
}

/// Learns whose the connections are that call, so that their calls can take turns.
async fn know(connection: Connection, shared: Arc<Shared>, mut names: UnboundedReceiver<String>) {
    let mut asking = JoinSet::new();
    while let Some(name) = names.recv().await {
        while asking.try_join_next().is_some() {}
        let Ok(unique) = OwnedUniqueName::try_from(name.as_str()) else {
            continue;
        };
        let (shared, connection) = (shared.clone(), connection.clone());
        asking.spawn(async move {
            // One that has left is nobody.
            if let Ok(user) = shared.user(&connection, &Caller::new(unique)).await {
                shared.accounts.know(&name, user);
            }
        });
    }
}
