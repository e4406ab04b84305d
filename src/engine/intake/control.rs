//! What the engine thread is asked: a turn, or something between two steps.

use tokio::sync::oneshot;

use super::request::Request;
use crate::engine::caller::request::RequestError;
use crate::engine::generation::state::Generation;
use crate::engine::reload::replacement::Replacement;
use crate::engine::session::sessions::SessionId;
use crate::graph::Mode;
use crate::kv_store::Place;

/// What the engine thread does next.
#[derive(Debug)]
pub enum Command {
    Request(Box<Request>),
    Control(Control),
}

/// What is done between two steps, whatever runs.
#[derive(Debug)]
pub enum Control {
    /// A session has closed: its KV is free, once it is on the disk if the session is `kept`.
    Forget { session: SessionId, kept: bool },
    /// Pages have come from the disk or gone there, or are due to go.
    Pages,
    /// A session was deleted: nothing of it is to be found in the cache.
    Erase(Place),
    /// A session goes on from where another one is.
    Branch { from: SessionId, to: SessionId },
    /// Turns of a session were taken back: only so many of its tokens count.
    Rewind { session: SessionId, keep: usize },
    /// Drop the decode graph.
    ResetGraph(oneshot::Sender<Result<(), RequestError>>),
    /// The decode graph in DOT.
    DumpGraph(oneshot::Sender<Result<String, RequestError>>),
    /// Record steps in another way.
    SetMode(Mode, oneshot::Sender<Result<(), String>>),
    /// Another model takes the place of the one that runs.
    Replace(Box<Replacement>),
    /// An answer goes on with the model that took the place of its own.
    #[allow(private_interfaces)] // only the engine's own thread gets it
    GoOn(Box<Generation>),
}

impl Control {
    /// The session that it takes back turns of.
    pub(crate) const fn rewinds(&self) -> Option<SessionId> {
        match self {
            Self::Rewind { session, .. } => Some(*session),
            _ => None,
        }
    }
}
