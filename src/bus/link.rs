//! One connection of the daemon to the bus: it makes the objects first, then the tasks that watch it, and owns the name last.

use std::sync::Arc;

use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::task::JoinSet;
use zbus::Connection;
use zbus::fdo::{DBusProxy, RequestNameFlags};
use zbus::names::{BusName, OwnedUniqueName, WellKnownName};

use super::accounts::Accounts;
use super::address::Address;
use super::call_filter::{self, ObjectFilter};
use super::departures;
use super::diagnostics::Diagnostics;
use super::manager::Manager;
use super::owner::Caller;
use super::registry::Registry;
use super::shared::Shared;
use super::transport::{BusSocket, Outbox, Refused};
use super::{NAME, PATH, property_changes, returned_answers, stalled_readers};

/// Why the daemon could not connect to the bus, or not own its name.
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
        "the bus does not let this user own {NAME}: {0}; reinstall the package, and start the daemon by systemctl start gangliond"
    )]
    NameRefused(zbus::Error),
}

/// A connection that owns the name; dropping it stops the tasks that watch it.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) connection: Connection,
    pub(super) shared: Arc<Shared>,
    pub(super) outbox: Arc<Outbox>,
    /// Aborted when it is dropped.
    _watchers: JoinSet<()>,
}

impl Link {
    /// Connects, serves the objects with the state of `common`, and owns the name.
    pub(super) async fn make(address: &Address, common: &Shared) -> Result<Self, BusError> {
        let failed = |source| BusError::Connect {
            address: address.clone(),
            source,
        };
        let (accounts, queries) = Accounts::new();
        let (registry, newcomers) = Registry::new();
        let shared = Arc::new(common.on(accounts.clone(), registry));
        let target = address.target().map_err(failed)?;
        let manager = Manager {
            shared: shared.clone(),
        };
        let diagnostics = Diagnostics {
            shared: shared.clone(),
        };
        let (filter, answers) = ObjectFilter::new(shared.clone(), &manager, &diagnostics);
        let socket = BusSocket::connect(&target, accounts.clone(), Arc::new(filter)).await;
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
        let errors = returned_answers::errors(&connection)
            .await
            .map_err(failed)?;
        let bus = DBusProxy::new(&connection).await.map_err(failed)?;
        // A connection that leaves has an empty new owner; other changes of names do not matter.
        let leaving = bus
            .receive_name_owner_changed_with_args(&[(2, "")])
            .await
            .map_err(failed)?;
        let mut watchers = JoinSet::new();
        watchers.spawn(refuse(connection.clone(), refused));
        watchers.spawn(call_filter::answer(connection.clone(), answers));
        watchers.spawn(learn_users(
            connection.clone(),
            shared.clone(),
            queries.users,
        ));
        watchers.spawn(stalled_readers::run(
            connection.clone(),
            shared.clone(),
            accounts,
            queries.unread,
        ));
        watchers.spawn(returned_answers::run(
            connection.clone(),
            shared.clone(),
            errors,
        ));
        watchers.spawn(departures::watch(
            connection.clone(),
            shared.clone(),
            leaving,
        ));
        watchers.spawn(property_changes::run(
            connection.clone(),
            shared.engine.status(),
        ));
        watchers.spawn(departures::confirm(
            connection.clone(),
            shared.clone(),
            newcomers,
        ));
        watchers.spawn(departures::sweep(connection.clone(), shared.clone()));
        own_name(&connection, &bus).await?;
        Ok(Self {
            connection,
            shared,
            outbox,
            _watchers: watchers,
        })
    }
}

async fn own_name(connection: &Connection, bus: &DBusProxy<'_>) -> Result<(), BusError> {
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

/// Answers the calls that the transport refused.
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

/// Learns the users of connections that call, so that their calls can take turns.
async fn learn_users(
    connection: Connection,
    shared: Arc<Shared>,
    mut names: UnboundedReceiver<String>,
) {
    let mut queries = JoinSet::new();
    while let Some(name) = names.recv().await {
        while queries.try_join_next().is_some() {}
        let Ok(unique) = OwnedUniqueName::try_from(name.as_str()) else {
            continue;
        };
        let (shared, connection) = (shared.clone(), connection.clone());
        queries.spawn(async move {
            // A connection that has left has no user.
            if let Ok(user) = shared.user(&connection, &Caller::new(unique)).await {
                shared.accounts.set_user(&name, user);
            }
        });
    }
}
