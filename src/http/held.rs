//! The session of a running request.

use super::chain::StoredTurn;
use super::session::HeldSession;
use crate::engine::{Client, Lease, Outcome};

/// A session; dropping it releases it.
#[derive(Debug)]
pub(super) enum Held {
    /// One that the request names.
    Named(HeldSession),
    /// That of a stored response.
    Stored(StoredTurn),
}

impl Held {
    /// Returns the caller that has the session.
    pub(super) fn client(&self) -> &Client {
        match self {
            Self::Named(session) => &session.client,
            Self::Stored(turn) => &turn.client,
        }
    }

    pub(super) fn lease(&self) -> Lease {
        match self {
            Self::Named(session) => session.lease,
            Self::Stored(turn) => turn.session.into(),
        }
    }

    /// Releases the session after the end of the request.
    pub(super) fn end(self, outcome: &Outcome) {
        match self {
            Self::Named(session) => drop(session),
            Self::Stored(turn) => turn.end(outcome),
        }
    }
}
