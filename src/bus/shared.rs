//! What all objects of the bus share, and how objects come and go with their owners.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use zbus::message::Header;
use zbus::{Connection, OwnedObjectPath, fdo};

use super::accounts::Accounts;
use super::authorize::{Caller, Owner};
use super::complaints::Complaints;
use super::hold::Holds;
use super::owned::{Asked, Belongings, Known, Owned};
use super::places::{Place, Places};
use super::reload::Reloads;
use super::request::Request;
use super::session::Session;
use super::users::Users;
use super::{BusConfig, Error, PATH};
use crate::engine::{Cancel, Client, Handle, Refusal, SessionId};

/// The least time between two sweeps of finished requests.
const SWEEP: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) engine: Handle,
    /// Absent until the configuration has been read.
    config: Arc<watch::Sender<Option<Arc<BusConfig>>>>,
    pub(super) reloads: Arc<Reloads>,
    /// One a request, from its call until its reader has everything.
    places: Places,
    complaints: Arc<Complaints>,
    // Of one connection to the bus: on another the same names are others'.
    pub(super) owned: Owned,
    users: Users,
    pub(super) holds: Holds,
    pub(super) accounts: Arc<Accounts>,
}

impl Shared {
    pub(super) fn new(engine: Handle) -> Self {
        Self {
            engine,
            config: Arc::new(watch::Sender::new(None)),
            reloads: Arc::default(),
            places: Places::default(),
            complaints: Arc::default(),
            owned: Owned::default(),
            users: Users::default(),
            holds: Holds::default(),
            accounts: Accounts::new().0,
        }
    }

    /// The same for another connection to the bus.
    pub(super) fn on(&self, accounts: Arc<Accounts>) -> Self {
        Self {
            engine: self.engine.clone(),
            config: self.config.clone(),
            reloads: self.reloads.clone(),
            places: self.places.clone(),
            complaints: self.complaints.clone(),
            owned: Owned::default(),
            users: Users::default(),
            holds: Holds::default(),
            accounts,
        }
    }

    /// What is in force; waits until there is something.
    pub(super) async fn config(&self) -> Arc<BusConfig> {
        let mut changes = self.config.subscribe();
        match changes.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(config)) => config.clone(),
            // Its sender is in `self`.
            _ => Arc::default(),
        }
    }

    pub(super) fn configure(&self, config: BusConfig) {
        self.config.send_replace(Some(Arc::new(config)));
    }

    /// Who calls, and which user that is.
    pub(super) async fn caller(
        &self,
        connection: &Connection,
        header: &Header<'_>,
    ) -> Result<Owner, Error> {
        let caller = Caller::of(header)?;
        let user = self.users.of(connection, &caller).await?;
        Ok(Owner::new(caller, user))
    }

    /// The user behind a connection.
    pub(super) async fn user(
        &self,
        connection: &Connection,
        caller: &Caller,
    ) -> Result<u32, Error> {
        self.users.of(connection, caller).await
    }

    /// A place for one more request. Asked first: refusing must cost next to nothing.
    pub(super) fn admit(&self, client: &Client) -> Result<Place, Error> {
        let place = self.places.take(client.user, &self.engine.limits());
        place.map_err(|refusal| self.refused(client, refusal))
    }

    /// What the caller reads of a refusal; if it is one that operators should know of, the journal is told.
    pub(super) fn refused(&self, client: &Client, refusal: Refusal) -> Error {
        if let Some(limit) = refusal.limit() {
            self.complaints.tell(client, limit);
        }
        refusal.into()
    }

    /// Returns when every request has been delivered.
    pub(super) async fn delivered(&self) {
        self.places.empty().await;
    }

    pub(super) fn own_request(
        self: &Arc<Self>,
        connection: &Connection,
        caller: &Caller,
        call: &Header<'_>,
        id: u64,
        cancel: &Cancel,
    ) {
        let asked = Asked {
            call: call.primary().serial_num().get(),
            cancel: cancel.clone(),
        };
        let known = self.owned.add_request(caller, id, asked);
        self.confirm(connection, caller, known);
    }

    pub(super) fn own_session(
        self: &Arc<Self>,
        connection: &Connection,
        caller: &Caller,
        session: SessionId,
    ) {
        let known = self.owned.add_session(caller, session);
        self.confirm(connection, caller, known);
    }

    /// The signal that the caller left may have come before it owned anything: the bus is asked once more.
    fn confirm(self: &Arc<Self>, connection: &Connection, caller: &Caller, known: Known) {
        if known == Known::Before {
            return;
        }
        let (shared, connection, caller) = (self.clone(), connection.clone(), caller.clone());
        tokio::spawn(async move {
            let owner = async {
                let bus = fdo::DBusProxy::new(&connection).await?;
                Ok::<_, zbus::Error>(bus.name_has_owner(caller.bus_name()).await?)
            };
            // If the bus is lost, so is the caller.
            if !owner.await.unwrap_or(false) {
                shared.leave(&connection, &caller).await;
            }
        });
    }

    /// A connection has left.
    pub(super) async fn leave(&self, connection: &Connection, caller: &Caller) {
        self.accounts.leave(caller.name());
        self.users.forget(caller);
        self.holds.leave(caller);
        self.end_all(connection, caller).await;
    }

    /// The bus is lost, and everyone with it.
    pub(super) fn lose(&self) {
        self.holds.lose();
        for belongings in self.owned.take_all() {
            self.end(&belongings);
        }
        // What is being encoded is nobody's belonging yet.
        for name in self.accounts.names() {
            self.engine.leave(&name);
        }
    }

    fn end(&self, belongings: &Belongings) {
        for (id, asked) in &belongings.running {
            self.engine.cancel(*id, &asked.cancel);
        }
        for session in &belongings.sessions {
            self.engine.close_session(*session);
        }
    }

    /// Ends everything that a connection owns: the engine first, then the objects.
    pub(super) async fn end_all(&self, connection: &Connection, caller: &Caller) {
        self.engine.leave(caller.name());
        let Some(belongings) = self.owned.take(caller) else {
            return;
        };
        self.end(&belongings);
        for session in belongings.sessions {
            remove_session(connection, session).await;
        }
        let finished = belongings.finished.into_iter().map(|(id, _)| id);
        for id in belongings.running.into_keys().chain(finished) {
            remove_request(connection, id).await;
        }
    }

    /// Takes away finished requests when their time is over, until the task is stopped.
    pub(super) async fn sweep(&self, connection: &Connection) {
        let linger = self.config().await.finished_linger;
        let mut ticks = tokio::time::interval((linger / 4).max(SWEEP));
        loop {
            let now = ticks.tick().await;
            for id in self.owned.expire(now.into_std()) {
                remove_request(connection, id).await;
            }
        }
    }
}

pub(super) fn request_path(id: u64) -> OwnedObjectPath {
    path(&format!("{PATH}/request/{id}"))
}

pub(super) fn session_path(SessionId(id): SessionId) -> OwnedObjectPath {
    path(&format!("{PATH}/session/{id}"))
}

fn path(path: &str) -> OwnedObjectPath {
    // A constant and a number: always valid; the root is harmless.
    OwnedObjectPath::try_from(path).unwrap_or_default()
}

/// Not being there is as good: `Complete` has no object, and an object may have been taken away before.
pub(super) async fn remove_request(connection: &Connection, id: u64) {
    let server = connection.object_server();
    let _ = server.remove::<Request, _>(request_path(id)).await;
}

pub(super) async fn remove_session(connection: &Connection, session: SessionId) {
    let server = connection.object_server();
    let _ = server.remove::<Session, _>(session_path(session)).await;
}
