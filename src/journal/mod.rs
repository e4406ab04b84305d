//! The journal: every event that the daemon reports, in one table, and where they go.
//!
//! An event is a message for people, the same facts as fields for programs, and an id that finds its remedy
//! in the catalog (`systemd/gangliond.catalog`, shown by `journalctl -x`). Prompts and answers are no part
//! of any event.

mod event;
mod events;
mod line;
mod output;

pub use event::Event;
pub use events::{
    EVENTS, backend_chosen, bus_lost, bus_unavailable, config_error, engine_failed, graph_disabled,
    graph_failed, graph_invalid, graph_recorded, graph_reset, load_failed, loading, model_ready,
    panicked, reload_failed, reloaded, request_failed, request_finished, stall_over, stalled,
    started, stopped, stopping, system_error,
};
pub use output::{Journal, init};

/// The target of all our events; those of libraries have others.
const TARGET: &str = "ganglion";
