//! Who calls, and what is theirs. The bus daemon vouches for the sender; nothing else is believed.

use zbus::message::Header;
use zbus::names::{BusName, OwnedUniqueName};

use super::Error;
use super::error::{no_object, unknown};
use crate::engine::Client;

/// A connection to the bus, by its unique name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Caller(OwnedUniqueName);

impl Caller {
    pub(super) fn new(name: OwnedUniqueName) -> Self {
        Self(name)
    }

    /// The sender of a call.
    pub(super) fn of(header: &Header<'_>) -> Result<Self, Error> {
        header
            .sender()
            .map(|name| Self(name.to_owned().into()))
            .ok_or(Error::Bus(zbus::Error::MissingField))
    }

    pub(super) fn name(&self) -> &str {
        self.0.as_str()
    }

    pub(super) fn bus_name(&self) -> BusName<'static> {
        BusName::Unique(self.0.clone().into())
    }
}

/// Whose an object is: the connection that made it, which alone may use it, and the user behind that.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    pub(super) caller: Caller,
    pub(super) client: Client,
}

impl Owner {
    pub(super) fn new(caller: Caller, user: u32) -> Self {
        let client = Client {
            name: caller.0.as_str().into(),
            user,
        };
        Self { caller, client }
    }

    /// Refuses everyone else, as an object that is not there. The gate lets nobody else this far.
    pub(super) fn admit(&self, header: &Header<'_>) -> Result<(), Error> {
        if header.sender().is_some_and(|name| *name == *self.caller.0) {
            Ok(())
        } else {
            let path = header.path().map_or("it", |path| path.as_str());
            Err(unknown(no_object(path)))
        }
    }

    /// Does as `admit` for properties: a read that no message asked for is refused too.
    pub(super) fn admit_reader(&self, header: Option<&Header<'_>>) -> Result<(), Error> {
        header.map_or_else(
            || Err(unknown(no_object("it"))),
            |header| self.admit(header),
        )
    }
}
