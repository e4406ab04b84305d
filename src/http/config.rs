//! Settings of the HTTP front end alone.

use std::collections::BTreeMap;
use std::time::Duration;

use super::keys::Keys;

/// Limits of connections, and the users of those whose peer does not tell its own.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpConfig {
    /// The most bytes of a request's body.
    pub max_body: usize,
    /// How long a peer may leave its answer unread.
    pub stream_stall: Duration,
    /// The users of all peers of a socket, by the socket's name.
    pub users: BTreeMap<String, u32>,
    /// The keys of callers over TCP; without them there is no TCP.
    pub keys: Option<Keys>,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            max_body: 16 << 20,
            stream_stall: Duration::from_secs(30),
            users: BTreeMap::new(),
            keys: None,
        }
    }
}
