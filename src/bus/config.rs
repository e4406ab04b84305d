//! Settings of the D-Bus front end alone.

use std::time::Duration;

/// How long callers may take, and how long results stay.
#[derive(Clone, Debug, PartialEq)]
pub struct BusConfig {
    /// How long a reader may leave its full pipe unread.
    pub stream_stall: Duration,
    /// The longest time of `Complete`, time in the queue included. Callers give up after 25 s.
    pub complete_timeout: Duration,
    /// How long the object of a finished request stays.
    pub finished_linger: Duration,
}

impl Default for BusConfig {
    fn default() -> Self {
        Self {
            stream_stall: Duration::from_secs(30),
            complete_timeout: Duration::from_secs(20),
            finished_linger: Duration::from_secs(60),
        }
    }
}
