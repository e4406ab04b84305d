//! Calls of `org.freedesktop.DBus.Properties` that zbus refuses: reads with an empty interface, which means any interface,
//! and Set, because all properties are read-only.

use std::collections::HashMap;

use zbus::message::{Header, Message};
use zbus::object_server::{Interface, SignalEmitter};
use zbus::{Connection, OwnedVariant, Variant, fdo};

use super::PATH;
use super::diagnostics::Diagnostics;
use super::error::no_object;
use super::manager::Manager;
use super::members::{self, Found};
use super::proxy::Info;
use super::registry::ObjectKind;
use super::request::Request;
use super::session::Session;

const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

/// A read of properties without an interface.
#[derive(Debug)]
pub(super) enum PropertyRead {
    /// All properties of all interfaces.
    All,
    One(String),
}

/// Parses a call; `None` if zbus answers it.
pub(super) fn read(call: &Message) -> Option<fdo::Result<PropertyRead>> {
    let header = call.header();
    if header.interface()?.as_str() != PROPERTIES {
        return None;
    }
    let (path, body) = (header.path()?.as_str(), call.body());
    match header.member()?.as_str() {
        "GetAll" => {
            let interface: &str = body.deserialize().ok()?;
            interface.is_empty().then_some(Ok(PropertyRead::All))
        }
        "Get" => {
            let (interface, property): (&str, &str) = body.deserialize().ok()?;
            interface.is_empty().then(|| one(path, property))
        }
        "Set" => {
            let (interface, property, _): (&str, &str, Variant<'_>) = body.deserialize().ok()?;
            Some(Err(unwritable(path, interface, property)))
        }
        _ => None,
    }
}

fn one(path: &str, property: &str) -> fdo::Result<PropertyRead> {
    match members::with_property(path, property) {
        Found::One(_) => Ok(PropertyRead::One(property.to_owned())),
        Found::None => Err(unknown(property)),
        Found::Several(names) => Err(fdo::Error::InvalidArgs(format!(
            "property {property:?} of {path} is in several interfaces ({}); name one in the call",
            names.join(", ")
        ))),
    }
}

fn unknown(property: &str) -> fdo::Error {
    fdo::Error::UnknownProperty(format!("Unknown property '{property}'"))
}

/// Returns the error of an attempt to write.
fn unwritable(path: &str, interface: &str, property: &str) -> fdo::Error {
    let known = if interface.is_empty() {
        Some(members::with_property(path, property) != Found::None)
    } else {
        members::has_property(path, interface, property)
    };
    match known {
        Some(true) => fdo::Error::PropertyReadOnly(format!(
            "property {property:?} is read-only; use methods or the configuration to change settings"
        )),
        Some(false) => unknown(property),
        None => fdo::Error::UnknownInterface(format!("Unknown interface '{interface}'")),
    }
}

/// Answers a read.
pub(super) async fn answer(connection: Connection, call: Message, read: PropertyRead) {
    let header = call.header();
    let object = Object {
        connection: &connection,
        header: &header,
    };
    // An answer fails only if the bus is lost.
    let _ = match read {
        PropertyRead::All => match object.all().await {
            Ok(properties) => connection.reply(&header, &properties).await,
            Err(error) => connection.reply_dbus_error(&header, error).await,
        },
        PropertyRead::One(property) => match object.one(&property).await {
            Ok(value) => connection.reply(&header, &value).await,
            Err(error) => connection.reply_dbus_error(&header, error).await,
        },
    };
}

/// The object of a call.
struct Object<'a> {
    connection: &'a Connection,
    header: &'a Header<'a>,
}

impl Object<'_> {
    fn path(&self) -> &str {
        self.header.path().map_or("/", |path| path.as_str())
    }

    async fn all(&self) -> Result<Info, zbus::BoxDBusError> {
        let path = self.path();
        Ok(match members::kind(path) {
            Some(ObjectKind::Session) => self.of::<Session>().await?,
            Some(ObjectKind::Request) => self.of::<Request>().await?,
            None if path == PATH => {
                let mut all = self.of::<Manager>().await?;
                all.extend(self.of::<Diagnostics>().await?);
                all
            }
            None => HashMap::new(),
        })
    }

    async fn one(&self, property: &str) -> Result<OwnedVariant, zbus::BoxDBusError> {
        let value = match members::kind(self.path()) {
            Some(ObjectKind::Session) => self.value::<Session>(property).await?,
            Some(ObjectKind::Request) => self.value::<Request>(property).await?,
            None => match self.value::<Manager>(property).await? {
                Some(value) => Some(value),
                None => self.value::<Diagnostics>(property).await?,
            },
        };
        value.ok_or_else(|| unknown(property).into())
    }

    /// Returns the properties of one interface.
    async fn of<I: Interface>(&self) -> Result<Info, zbus::BoxDBusError> {
        let server = self.connection.object_server();
        let object = server.interface::<_, I>(self.path()).await;
        let object = object.map_err(|_| fdo::Error::UnknownObject(no_object(self.path())))?;
        let emitter = SignalEmitter::new(self.connection, self.path())?;
        let object = object.get().await;
        let header = Some(self.header);
        Ok(object
            .get_all(server, self.connection, header, &emitter)
            .await?)
    }

    /// Returns a property of one interface; `None` if it has no property of this name.
    async fn value<I: Interface>(
        &self,
        property: &str,
    ) -> Result<Option<OwnedVariant>, zbus::BoxDBusError> {
        let server = self.connection.object_server();
        let object = server.interface::<_, I>(self.path()).await;
        let object = object.map_err(|_| fdo::Error::UnknownObject(no_object(self.path())))?;
        let emitter = SignalEmitter::new(self.connection, self.path())?;
        let object = object.get().await;
        let header = Some(self.header);
        let value = object.get(property, server, self.connection, header, &emitter);
        value.await.transpose()
    }
}
