//! The commands of the engine thread: a request, or a control command that it obeys between two steps.

use tokio::sync::oneshot;

use super::request::Request;
use crate::engine::caller::request::{Refusal, RequestError};
use crate::engine::generation::state::Generation;
use crate::engine::reload::replacement::Replacement;
use crate::engine::session::sessions::SessionId;
use crate::graph::Mode;
use crate::kv_store::Place;

/// A command of the engine thread.
#[derive(Debug)]
pub enum Command {
    Request(Box<Request>),
    Control(Control),
}

/// A command that is obeyed between two steps.
#[derive(Debug)]
pub enum Control {
    /// A session has closed: its pages are released. Those of a `persistent` session are saved before.
    Forget {
        session: SessionId,
        persistent: bool,
    },
    /// Pages have arrived from the disk, were written, or are due to be saved.
    Pages,
    /// A session was deleted: its pages are erased from the cache.
    Erase(Place),
    /// A session begins with the tokens of another.
    Branch { from: SessionId, to: SessionId },
    /// A session was rewound to its first `keep` tokens.
    Rewind { session: SessionId, keep: usize },
    /// Drops the decode graph.
    ResetGraph(oneshot::Sender<Result<(), RequestError>>),
    /// Returns the decode graph in DOT.
    DumpGraph(oneshot::Sender<Result<String, RequestError>>),
    /// Changes how steps are recorded.
    SetMode(Mode, oneshot::Sender<Result<(), String>>),
    /// Releases the weights, unless requests need them.
    Release(oneshot::Sender<Result<(), Refusal>>),
    /// The system lacks memory: the engine thread releases some that nobody needs.
    Pressure,
    /// Replaces the model.
    Replace(Box<Replacement>),
    /// Continues a generation with the model that has replaced its own.
    #[allow(private_interfaces)] // only the engine thread receives it
    Continue(Box<Generation>),
}

impl Control {
    /// Returns the session that it rewinds.
    pub(crate) const fn rewinds(&self) -> Option<SessionId> {
        match self {
            Self::Rewind { session, .. } => Some(*session),
            _ => None,
        }
    }
}
