//! The paths of callers' objects, and their registration.

use zbus::object_server::Interface;
use zbus::{Connection, OwnedObjectPath};

use super::PATH;
use super::error::Error;
use super::registry::ObjectKind;

/// Returns the path of an object.
pub(super) fn path(kind: ObjectKind, number: u64) -> OwnedObjectPath {
    let path = format!("{PATH}/{}/{number}", kind.name());
    // Constants and a number are a valid path; the default is never used.
    OwnedObjectPath::try_from(path).unwrap_or_default()
}

/// Registers an object at a free path.
pub(super) async fn put<I: Interface>(
    connection: &Connection,
    path: &OwnedObjectPath,
    object: I,
) -> Result<(), Error> {
    match connection.object_server().at(path, object).await? {
        None => Ok(()),
        Some(_) => Err(Error::EngineFailed(format!(
            "an object exists at {} already; call again",
            path.as_str()
        ))),
    }
}
