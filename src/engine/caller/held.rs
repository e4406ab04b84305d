//! Which requests the active holds keep off the device: none, `background`, or all.

use std::time::{Duration, Instant, SystemTime};

use super::client::Client;
use super::request::Priority;

const DAY: Duration = Duration::from_secs(86_400);

/// What holds keep off the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Held {
    #[default]
    Nothing,
    Background,
    All,
}

impl Held {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::Background => "background",
            Self::All => "all",
        }
    }

    /// Whether it suspends requests of a priority.
    pub(crate) fn suspends(self, priority: Priority) -> bool {
        match self {
            Self::Nothing => false,
            Self::Background => priority == Priority::Background,
            Self::All => true,
        }
    }

    pub(crate) const fn of(number: u8) -> Self {
        match number {
            0 => Self::Nothing,
            1 => Self::Background,
            _ => Self::All,
        }
    }
}

/// An active hold, as callers see it.
#[derive(Clone, Debug)]
pub struct ActiveHold {
    /// Requests that it keeps off the device.
    pub held: Held,
    /// The connection that holds, and its user.
    pub client: Client,
    pub reason: String,
    pub since: SystemTime,
    /// Its end at the latest.
    until: Instant,
}

impl ActiveHold {
    /// Returns a hold that begins at this moment, and lasts for at most `longest`.
    pub(crate) fn new(client: Client, held: Held, reason: String, longest: Duration) -> Self {
        let now = Instant::now();
        Self {
            held,
            client,
            reason,
            since: SystemTime::now(),
            // Longer times exceed the range of the clock.
            until: now.checked_add(longest).unwrap_or(now + DAY),
        }
    }

    /// Returns the longest time that it can still last.
    #[must_use]
    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}
