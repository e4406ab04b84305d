//! The users of sockets, by the names of the sockets. In the file they are a list of texts `NAME=USER-ID`.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

/// The user of all callers on a socket, by the socket's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocketUsers(BTreeMap<String, u32>);

impl SocketUsers {
    /// Reads the entries of a list; `None` if one is not a name and a user id, or a name has two users.
    pub(super) fn read<'a>(entries: impl IntoIterator<Item = Option<&'a str>>) -> Option<Self> {
        let mut users = BTreeMap::new();
        for entry in entries {
            let (name, user) = entry?.split_once('=')?;
            // systemd separates the names of descriptors by colons.
            if name.is_empty() || name.contains(':') {
                return None;
            }
            if users.insert(name.to_owned(), user.parse().ok()?).is_some() {
                return None;
            }
        }
        Some(Self(users))
    }

    /// Returns the users by the names of the sockets.
    #[must_use]
    pub fn by_name(&self) -> &BTreeMap<String, u32> {
        &self.0
    }
}

impl Serialize for SocketUsers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entries = self.0.iter().map(|(name, user)| format!("{name}={user}"));
        serializer.collect_seq(entries)
    }
}
