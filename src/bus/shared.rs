//! State that all objects of a connection to the bus share: the front, the settings of the bus, and facts about callers.
//!
//! `departures` ends the objects of callers that leave.

use std::sync::Arc;

use zbus::Connection;
use zbus::message::Header;

use super::accounts::Accounts;
use super::config::BusConfig;
use super::error::Error;
use super::holds::Holds;
use super::owner::{Caller, ObjectOwner};
use super::registry::{Belongings, Registry};
use super::reload::Reloads;
use super::users::Users;
use crate::engine::{Client, Handle, Priority};
use crate::front::{self, Config, Front, Permit, Setting};

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) engine: Handle,
    pub(super) front: Front,
    config: Setting<BusConfig>,
    pub(super) reloads: Arc<Reloads>,
    // These belong to one connection to the bus: on the next one, the same names are other clients.
    pub(super) registry: Registry,
    users: Users,
    pub(super) holds: Holds,
    pub(super) accounts: Arc<Accounts>,
}

impl Shared {
    pub(super) fn new(front: Front) -> Self {
        Self {
            engine: front.engine().clone(),
            front,
            config: Setting::default(),
            reloads: Arc::default(),
            registry: Registry::new().0,
            users: Users::default(),
            holds: Holds::default(),
            accounts: Accounts::new().0,
        }
    }

    /// Returns the state for another connection to the bus.
    pub(super) fn on(&self, accounts: Arc<Accounts>, registry: Registry) -> Self {
        Self {
            engine: self.engine.clone(),
            front: self.front.clone(),
            config: self.config.clone(),
            reloads: self.reloads.clone(),
            registry,
            users: Users::default(),
            holds: Holds::default(),
            accounts,
        }
    }

    /// Returns the settings of the bus; waits until there are some.
    pub(super) async fn bus_config(&self) -> Arc<BusConfig> {
        self.config.get().await
    }

    /// Returns the limits and defaults of requests; waits until there are some.
    pub(super) async fn front_config(&self) -> Arc<Config> {
        self.front.config().await
    }

    pub(super) fn configure(&self, config: BusConfig) {
        self.config.set(config);
    }

    /// Returns the caller as the owner of objects that the call makes.
    pub(super) async fn caller(
        &self,
        connection: &Connection,
        header: &Header<'_>,
    ) -> Result<ObjectOwner, Error> {
        let caller = Caller::of(header)?;
        let user = self.users.of(connection, &caller).await?;
        // A connection that calls for the first time had no user yet when its call was handed in.
        self.accounts.keep_pace(user).await;
        Ok(ObjectOwner::new(caller, user))
    }

    /// Forgets a connection that has left. `departures` ends its objects.
    pub(super) fn forget(&self, caller: &Caller) {
        self.accounts.leave(caller.name());
        self.users.forget(caller);
        self.holds.leave(caller);
    }

    /// Returns the user of a connection.
    pub(super) async fn user(
        &self,
        connection: &Connection,
        caller: &Caller,
    ) -> Result<u32, Error> {
        self.users.of(connection, caller).await
    }

    /// Whether a call is an operator's, who may see facts about the requests of others.
    pub(super) async fn is_operator(
        &self,
        connection: &Connection,
        header: Option<&Header<'_>>,
    ) -> bool {
        let caller = header.and_then(|header| Caller::of(header).ok());
        match caller {
            Some(caller) => (self.users.is_operator(&self.front, connection, &caller)).await,
            None => false,
        }
    }

    /// Takes a permit for one more request.
    pub(super) fn admit(&self, client: &Client) -> Result<Permit, Error> {
        Ok(self.front.admit(client)?)
    }

    /// Refuses a priority that the client's user may not use.
    pub(super) async fn admit_priority(
        &self,
        client: &Client,
        priority: Priority,
    ) -> Result<(), Error> {
        Ok(self.front.admit_priority(client, priority).await?)
    }

    /// Returns the error of a refusal, and reports a reached limit to the journal.
    pub(super) fn refused(&self, client: &Client, refusal: impl Into<front::Error>) -> Error {
        self.front.refused(client, refusal).into()
    }

    /// Ends everything that callers own, because the bus is lost.
    pub(super) fn lose(&self) {
        self.holds.lose();
        for (caller, belongings) in self.registry.take_all() {
            self.cancel(&belongings);
            for session in belongings.sessions.into_values() {
                self.engine
                    .release_session(session, &caller.connection_name());
            }
        }
        // Prompts that are being encoded are not in the registry yet.
        for name in self.accounts.names() {
            self.engine.leave(&name.into());
        }
    }

    /// Cancels the requests of a connection.
    pub(super) fn cancel(&self, belongings: &Belongings) {
        for id in belongings.running.keys() {
            self.engine.cancel(*id);
        }
    }
}
