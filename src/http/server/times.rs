//! How long a peer may take.

use std::time::Duration;

/// The times of one connection. Tests have shorter ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// The time for the headers of a request, and the longest time without one.
    pub(super) headers: Duration,
    /// The longest time without a byte of a body.
    pub(super) silence: Duration,
    /// The time for a body, in addition to what [`body`](super::body) grants for its bytes.
    pub(super) body: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            headers: Duration::from_secs(10),
            silence: Duration::from_secs(10),
            body: Duration::from_secs(30),
        }
    }
}
