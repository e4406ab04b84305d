//! The address of the bus that the daemon and its clients use.

use std::fmt;
use std::str::FromStr;

use zbus::Connection;
use zbus::connection::Builder;

/// The address of a bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    System,
    Session,
    /// A D-Bus address such as `unix:path=/run/robot/bus`.
    Other(String),
}

impl FromStr for Address {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "system" => Self::System,
            "session" => Self::Session,
            other => Self::Other(other.to_owned()),
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str("system bus"),
            Self::Session => f.write_str("session bus"),
            Self::Other(address) => write!(f, "bus {address}"),
        }
    }
}

impl Address {
    /// Connects to the bus.
    pub async fn connect(&self) -> zbus::Result<Connection> {
        Builder::address(self.target()?).build().await
    }

    /// Returns the address of its socket.
    pub(super) fn target(&self) -> zbus::Result<zbus::Address> {
        match self {
            Self::System => zbus::Address::system(),
            Self::Session => zbus::Address::session(),
            Self::Other(address) => address.as_str().try_into(),
        }
    }
}
