//! `org.ganglion.Llm1.Diagnostics`: what the engine does, for those who look after it.

// The docs of an interface become introspection data: plain text.
#![allow(clippy::doc_markdown)]
// An interface needs receivers.
#![allow(clippy::unused_self)]

use std::sync::Arc;

use zbus::interface;

use super::proxy::Info;
use super::shared::Shared;
use super::{Error, info};

#[derive(Debug)]
pub(super) struct Diagnostics {
    pub(super) shared: Arc<Shared>,
}

/// What the engine does, for those who look after it.
#[interface(name = "org.ganglion.Llm1.Diagnostics")]
impl Diagnostics {
    /// Drops the decode graph; the next step records it anew. Error.NotSupported without a graph.
    fn reset_graph(&self) -> Result<(), Error> {
        Err(no_graph())
    }

    /// The decode graph in DOT. Error.NotSupported without a graph.
    #[zbus(out_args("dot"))]
    fn dump_graph(&self) -> Result<zbus::OwnedFd, Error> {
        Err(no_graph())
    }

    /// State of the decode graph; "none" if this backend records none, or does not tell.
    #[zbus(property)]
    fn graph_state(&self) -> String {
        "none".to_owned()
    }

    /// The decode graph: state, mode, reason (s).
    #[zbus(property(emits_changed_signal = "false"))]
    fn decode_graph(&self) -> Info {
        info::decode_graph(&self.shared.engine.status().borrow())
    }

    /// What the last finished request cost, as Request.Finished tells it; empty before the first.
    #[zbus(property(emits_changed_signal = "false"))]
    fn timing(&self) -> Info {
        info::timing(&self.shared.engine.status().borrow())
    }

    /// What computes: backend, description (s).
    #[zbus(property(emits_changed_signal = "false"))]
    fn device(&self) -> Info {
        info::device(&self.shared.engine.status().borrow())
    }
}

fn no_graph() -> Error {
    Error::NotSupported("this backend records no decode graph".to_owned())
}
