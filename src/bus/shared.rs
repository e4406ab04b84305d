//! What all objects of the bus share: the engine, the configuration in force, and what is counted of callers. How objects
//! go with their owners is for `departure`.

use std::sync::Arc;

use tokio::sync::watch;
use zbus::Connection;
use zbus::message::Header;

use super::accounts::Accounts;
use super::authorize::{Caller, Owner};
use super::complaints::Complaints;
use super::holds::Holds;
use super::permits::{Permit, Permits};
use super::registry::{Belongings, Registry};
use super::reload::Reloads;
use super::users::Users;
use super::{BusConfig, Error};
use crate::engine::{Client, Handle, Refusal};

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) engine: Handle,
    /// Absent until the configuration has been read.
    config: Arc<watch::Sender<Option<Arc<BusConfig>>>>,
    pub(super) reloads: Arc<Reloads>,
    /// One a request, from its call until its reader has everything.
    permits: Permits,
    complaints: Arc<Complaints>,
    // It belongs to one connection to the bus: on another the same names are others'.
    pub(super) registry: Registry,
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
            permits: Permits::default(),
            complaints: Arc::default(),
            registry: Registry::new().0,
            users: Users::default(),
            holds: Holds::default(),
            accounts: Accounts::new().0,
        }
    }

    /// The same for another connection to the bus.
    pub(super) fn on(&self, accounts: Arc<Accounts>, registry: Registry) -> Self {
        Self {
            engine: self.engine.clone(),
            config: self.config.clone(),
            reloads: self.reloads.clone(),
            permits: self.permits.clone(),
            complaints: self.complaints.clone(),
            registry,
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
        // A connection that calls for the first time had no user yet when its call was handed in.
        self.accounts.keep_pace(user).await;
        Ok(Owner::new(caller, user))
    }

    /// A connection has left; what it owns is ended by `departure`.
    pub(super) fn forget(&self, caller: &Caller) {
        self.accounts.leave(caller.name());
        self.users.forget(caller);
        self.holds.leave(caller);
    }

    /// The user behind a connection.
    pub(super) async fn user(
        &self,
        connection: &Connection,
        caller: &Caller,
    ) -> Result<u32, Error> {
        self.users.of(connection, caller).await
    }

    /// Whether a call is of root or of an operator, who may see what others have asked for.
    pub(super) async fn operates(
        &self,
        connection: &Connection,
        header: Option<&Header<'_>>,
    ) -> bool {
        let caller = header.and_then(|header| Caller::of(header).ok());
        match caller {
            Some(caller) => self.users.operates(connection, &caller).await,
            None => false,
        }
    }

    /// A permit for one more request. Asked first: refusing must cost next to nothing.
    pub(super) fn admit(&self, client: &Client) -> Result<Permit, Error> {
        let permit = self.permits.take(client.user, &self.engine.limits());
        permit.map_err(|refusal| self.refused(client, refusal))
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
        self.permits.empty().await;
    }

    /// The bus is lost, and everyone with it.
    pub(super) fn lose(&self) {
        self.holds.lose();
        for (caller, belongings) in self.registry.take_all() {
            self.cancel(&belongings);
            for session in belongings.sessions.into_values() {
                self.engine.let_go(session, caller.name());
            }
        }
        // What is being encoded is nobody's belonging yet.
        for name in self.accounts.names() {
            self.engine.leave(&name);
        }
    }

    /// Cancels what a connection has asked for.
    pub(super) fn cancel(&self, belongings: &Belongings) {
        for id in belongings.running.keys() {
            self.engine.cancel(*id);
        }
    }
}
