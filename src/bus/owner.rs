//! Callers and owners of objects: the connection that made an object may use it. The bus daemon vouches for the sender of
//! each call; nothing else is trusted.

use zbus::message::Header;
use zbus::names::{BusName, OwnedUniqueName};

use super::error::{Error, no_object, unknown_object};
use crate::engine::{Client, ConnectionName};

/// A connection to the bus, by its unique name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Caller(OwnedUniqueName);

impl Caller {
    pub(super) fn new(name: OwnedUniqueName) -> Self {
        Self(name)
    }

    /// Returns the sender of a call.
    pub(super) fn of(header: &Header<'_>) -> Result<Self, Error> {
        header
            .sender()
            .map(|name| Self(name.to_owned().into()))
            .ok_or(Error::Bus(zbus::Error::MissingField))
    }

    pub(super) fn name(&self) -> &str {
        self.0.as_str()
    }

    /// Returns the name of the connection for the engine.
    pub(super) fn connection_name(&self) -> ConnectionName {
        self.name().into()
    }

    pub(super) fn bus_name(&self) -> BusName<'static> {
        BusName::Unique(self.0.clone().into())
    }
}

/// The owner of an object: the connection that made it, and the user of that connection.
#[derive(Clone, Debug)]
pub(super) struct ObjectOwner {
    pub(super) caller: Caller,
    pub(super) client: Client,
}

impl ObjectOwner {
    pub(super) fn new(caller: Caller, user: u32) -> Self {
        let name = caller.connection_name();
        let client = Client { name, user };
        Self { caller, client }
    }

    /// Refuses calls of other connections, with the error of an object that does not exist. The call filter lets none of
    /// them through; this is a second check.
    pub(super) fn admit(&self, header: &Header<'_>) -> Result<(), Error> {
        if header.sender().is_some_and(|name| *name == *self.caller.0) {
            Ok(())
        } else {
            let path = header.path().map_or("it", |path| path.as_str());
            Err(unknown_object(no_object(path)))
        }
    }

    /// Refuses reads of properties by other connections, and reads without a message.
    pub(super) fn admit_reader(&self, header: Option<&Header<'_>>) -> Result<(), Error> {
        header.map_or_else(
            || Err(unknown_object(no_object("it"))),
            |header| self.admit(header),
        )
    }
}
