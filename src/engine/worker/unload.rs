//! A release of the weights: why, and whom to tell. `unloading` decides when it happens.

use tokio::sync::oneshot;

use crate::engine::caller::request::Refusal;

/// Why the weights are released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// There was no request for the configured time.
    Unused,
    /// An operator has called.
    Released,
    /// The system lacks memory.
    Pressure,
}

impl Cause {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Unused => "no request for idle.unload_seconds",
            Self::Released => "an operator's call",
            Self::Pressure => "the system lacks memory",
        }
    }
}

/// A release of the weights that is due.
#[derive(Debug)]
pub(super) struct Unload {
    pub(super) cause: Cause,
    /// Whom to tell.
    reply: Option<oneshot::Sender<Result<(), Refusal>>>,
}

impl Unload {
    pub(super) fn released(reply: oneshot::Sender<Result<(), Refusal>>) -> Self {
        Self {
            cause: Cause::Released,
            reply: Some(reply),
        }
    }

    pub(super) const fn of(cause: Cause) -> Self {
        Self { cause, reply: None }
    }

    /// Tells the caller, if there is one, what has become of it.
    pub(super) fn answer(self, result: Result<(), Refusal>) {
        if let Some(reply) = self.reply {
            // The caller may have gone.
            drop(reply.send(result));
        }
    }
}
