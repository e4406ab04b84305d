//! A session as its holder knows it.

use super::session::SessionId;

/// A session in the hands of one holder. It ends when the session does, or when another connection takes the session: calls
/// with an ended lease are refused as those of a closed session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    pub(super) session: SessionId,
    number: u64,
}

impl Lease {
    /// A lease of a session, by its random number.
    pub(super) fn new(session: SessionId, number: u64) -> Self {
        Self { session, number }
    }

    /// The session.
    #[must_use]
    pub fn session(self) -> SessionId {
        self.session
    }

    /// A number of 64 random bits that no other lease has.
    #[must_use]
    pub fn number(self) -> u64 {
        self.number
    }

    /// Whether this is the lease with that number, or stands for any of its session.
    pub(super) fn is(self, number: u64) -> bool {
        self.number == ANY || self.number == number
    }
}

/// No lease has this number.
const ANY: u64 = 0;

impl From<SessionId> for Lease {
    /// Stands for the session, independent of its holder.
    fn from(session: SessionId) -> Self {
        Self::new(session, ANY)
    }
}
