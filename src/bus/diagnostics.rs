//! `org.ganglion.Llm1.Diagnostics`: what the engine does, for those who look after it.

// The docs of an interface become introspection data: plain text.
#![allow(clippy::doc_markdown)]

use std::sync::Arc;

use zbus::message::Header;
use zbus::{Connection, interface};

use super::proxy::Info;
use super::shared::Shared;
use super::{Error, info, sealed};

#[derive(Debug)]
pub(super) struct Diagnostics {
    pub(super) shared: Arc<Shared>,
}

/// What the engine does, for those who look after it.
#[interface(name = "org.ganglion.Llm1.Diagnostics", introspection_docs = false)]
impl Diagnostics {
    /// Drops all that was recorded: the next step records anew, also where failures had disabled it.
    /// Error.NotSupported if this engine records nothing, Error.NotReady while the model loads. For root
    /// and group ganglion-admin.
    async fn reset_graph(&self) -> Result<(), Error> {
        Ok(self.shared.engine.reset_graph().await?)
    }

    /// The decode graph in DOT: a sealed file in memory, to be read from its start. It holds one digraph
    /// for each recorded segment, and is empty before the first recording. Errors and callers as
    /// of ResetGraph; Error.EngineFailed if the device's driver does not tell.
    #[zbus(out_args("dot"))]
    async fn dump_graph(&self) -> Result<zbus::OwnedFd, Error> {
        let dot = self.shared.engine.dump_graph().await?;
        let file = sealed::file("decode graph", dot.as_bytes())
            .map_err(|error| zbus::Error::InputOutput(error.into()))?;
        Ok(file.into())
    }

    /// "invalid" (the next step records it), "recording", "valid" (steps replay it) or "disabled"
    /// (steps run kernel by kernel); "none" if this engine has none. Changes that follow each other
    /// within a tenth of a second may be told as one.
    #[zbus(property)]
    fn graph_state(&self) -> String {
        self.shared.engine.status().borrow().graph_state.to_owned()
    }

    /// The decode graph: state, mode, reason (why it is or was last invalid, or the change of the cache that it
    /// is valid again after), last_error (s); epoch (changes of the key-value cache), nodes (of one replay),
    /// recordings, verified (such changes after which nothing had to be recorded), updates (recordings that the
    /// living graph took), instantiations, launches, eager_steps, failures, failures_in_a_row,
    /// recording_us (of the last recording), and of short prompts prompt_graphs (held now),
    /// prompt_recordings, prompt_launches (t).
    #[zbus(property(emits_changed_signal = "false"))]
    fn decode_graph(&self) -> Info {
        info::decode_graph(&self.shared.engine.live().graph)
    }

    /// Since the start: tokens, steps (t), and of the steps the microseconds from token to token
    /// (step_), of these the device's idle ones (gap_) and the engine thread's working ones (host_):
    /// each p50_us, p90_us, p99_us, max_us (d), all 0 before the first step; commits (t), turns of sessions that were
    /// written to the disk, commit_p50_us and commit_p99_us (d), how long each took to be there. For root and group
    /// ganglion-admin, after the first request, also what the last finished one cost, as Request.Finished tells it, without its
    /// seed and its sampling.
    /// Whoever reads this by itself has one step a second run kernel by kernel for the next 5 seconds, with the time of each
    /// operation, where the engine can tell that; from then on timed_steps (t) counts them, and operations (a{sv}) has a
    /// dictionary for each kind of operation of the last one: count (t), us, of all of that kind (d), bytes that they must
    /// read and write once (t). Nothing is recorded anew, and such steps are in no percentile.
    #[zbus(property(emits_changed_signal = "false"))]
    async fn timing(
        &self,
        #[zbus(header)] header: Option<Header<'_>>,
        #[zbus(connection)] connection: &Connection,
    ) -> Info {
        let engine = &self.shared.engine;
        // It says how long a prompt and an answer of somebody were.
        let operates = self.shared.operates(connection, header.as_ref()).await;
        let receipt = engine.status().borrow().receipt.filter(|_| operates);
        // Many a client reads all properties, whichever it is that it was asked for.
        let all = |header: &Header<'_>| header.member().is_some_and(|member| member == "GetAll");
        let snapshot = if header.as_ref().is_some_and(all) {
            engine.live()
        } else {
            engine.timed()
        };
        info::timing(&snapshot, engine.commits(), receipt)
    }

    /// Whom the engine answers, and who waits: rows (conversations of the last step), reading (whose prompt is being read),
    /// suspended (who rests for more urgent ones, where it is), realtime, normal, background (those that are answered, by
    /// priority), waiting, waiting_realtime, waiting_normal, waiting_background (those that are not yet) (u), waiting_users
    /// (au): whose these are; held (s): "background" or "all", whose requests rest by Manager.Hold or HoldAll, and holds (as),
    /// why; pages, pages_free, pages_allocated (u): of the cache, 64 tokens each, those of them that nothing is kept in, and
    /// those that have memory now; pages_in_host (u): of sessions that rest, those that the host's memory has too (kv.host_mib).
    #[zbus(property(emits_changed_signal = "false"))]
    fn work(&self) -> Info {
        let engine = &self.shared.engine;
        info::work(engine.live().work, &engine.waiting(), &engine.holds())
    }

    /// What computes: backend, description (s).
    #[zbus(property(emits_changed_signal = "false"))]
    fn device(&self) -> Info {
        info::device(&self.shared.engine.status().borrow())
    }
}
