//! Where the objects of callers lie, and how one is put there.

use zbus::object_server::Interface;
use zbus::{Connection, OwnedObjectPath};

use super::registry::Kind;
use super::{Error, PATH};

/// The path of an object.
pub(super) fn path(kind: Kind, number: u64) -> OwnedObjectPath {
    let path = format!("{PATH}/{}/{number}", kind.name());
    // Constants and a number: always valid; the root is harmless.
    OwnedObjectPath::try_from(path).unwrap_or_default()
}

/// Puts an object at a path where there is none.
pub(super) async fn put<I: Interface>(
    connection: &Connection,
    path: &OwnedObjectPath,
    object: I,
) -> Result<(), Error> {
    match connection.object_server().at(path, object).await? {
        None => Ok(()),
        Some(_) => Err(Error::EngineFailed(format!(
            "there is an object at {} already; call again",
            path.as_str()
        ))),
    }
}
