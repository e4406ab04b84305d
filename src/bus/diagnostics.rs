//! `org.ganglion.Llm1.Diagnostics`: facts about the work of the engine, for operators.
//!
//! `config/interfaces/org.ganglion.Llm1.Diagnostics.xml` describes each member.

use std::sync::Arc;

use zbus::message::Header;
use zbus::{Connection, interface};

use super::error::Error;
use super::proxy::Info;
use super::shared::Shared;
use super::{board_info, info, sealed};

#[derive(Debug)]
pub(super) struct Diagnostics {
    pub(super) shared: Arc<Shared>,
}

/// Facts about the work of the engine, for operators. The XML file of the interface describes each member.
#[interface(name = "org.ganglion.Llm1.Diagnostics", introspection_docs = false)]
impl Diagnostics {
    /// Drops the decode graph; the next step records it anew.
    async fn reset_graph(&self) -> Result<(), Error> {
        Ok(self.shared.engine.reset_graph().await?)
    }

    /// Returns the decode graph in DOT, as a sealed file.
    #[zbus(out_args("dot"))]
    async fn dump_graph(&self) -> Result<zbus::OwnedFd, Error> {
        let dot = self.shared.engine.dump_graph().await?;
        let file = sealed::file("decode graph", dot.as_bytes())
            .map_err(|error| zbus::Error::InputOutput(error.into()))?;
        Ok(file.into())
    }

    /// "invalid", "recording", "valid", "disabled", or "none".
    #[zbus(property)]
    fn graph_state(&self) -> String {
        self.shared.engine.status().borrow().graph_state.to_owned()
    }

    /// The decode graph and its counters.
    #[zbus(property(emits_changed_signal = "false"))]
    fn decode_graph(&self) -> Info {
        info::decode_graph(&self.shared.engine.live().graph)
    }

    /// Times of steps and commits, and the cost of the last request.
    #[zbus(property(emits_changed_signal = "false"))]
    async fn timing(
        &self,
        #[zbus(header)] header: Option<Header<'_>>,
        #[zbus(connection)] connection: &Connection,
    ) -> Info {
        let engine = &self.shared.engine;
        // The lengths of a prompt and an answer are private to their user.
        let is_operator = self.shared.is_operator(connection, header.as_ref()).await;
        let receipt = engine.status().borrow().receipt.filter(|_| is_operator);
        // Many clients read all properties to get one: such a read does not time steps.
        let all = |header: &Header<'_>| header.member().is_some_and(|member| member == "GetAll");
        let snapshot = if header.as_ref().is_some_and(all) {
            engine.live()
        } else {
            engine.timed()
        };
        info::timing(&snapshot, engine.commits(), receipt)
    }

    /// The active and the queued requests, and the pages of the cache.
    #[zbus(property(emits_changed_signal = "false"))]
    fn work(&self) -> Info {
        let engine = &self.shared.engine;
        info::work(engine.live().work, &engine.waiting(), &engine.holds())
    }

    /// The device that computes, and the board that it is on.
    #[zbus(property(emits_changed_signal = "false"))]
    async fn device(&self) -> Info {
        let engine = self.shared.engine.clone();
        // A sensor can make its reader wait.
        let board = tokio::task::spawn_blocking(move || engine.board().state()).await;
        let engine = &self.shared.engine;
        let device = info::device(&engine.status().borrow());
        device
            .into_iter()
            .chain(board_info::board(
                &board.unwrap_or_default(),
                engine.board(),
            ))
            .collect()
    }
}
