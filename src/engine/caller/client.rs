//! A caller of the engine: limits count by its user, turns alternate by its connection, and the journal names both.
//!
//! The front ends decide what a caller may ask for.

use std::fmt::{self, Display};
use std::sync::Arc;

/// The name of a connection to a front end: opaque to the engine, and unique while the connection lasts.
///
/// Each front end makes names that no other front end makes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionName(Arc<str>);

impl ConnectionName {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for ConnectionName {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl From<String> for ConnectionName {
    fn from(name: String) -> Self {
        Self(name.into())
    }
}

impl Display for ConnectionName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// One caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    pub name: ConnectionName,
    /// The user that it runs as: limits are for each of these.
    pub user: u32,
}
