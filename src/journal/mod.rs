//! The journal: every event that the daemon reports, in one table, and where they go.
//!
//! An event is a message for people, the same facts as fields for programs, and an id that finds its remedy
//! in the catalog (`systemd/gangliond.catalog`, shown by `journalctl -x`). Prompts and answers are no part
//! of any event. Reporting never waits: `queue` has a thread for that, and the process ends with `flush`. What callers
//! cause is told within a rate for each of them: `callers`.

mod callers;
mod event;
mod events;
mod fields;
mod level;
mod libraries;
mod line;
mod output;
mod queue;

pub use event::Event;
pub use events::*;
pub use fields::FIELDS;
pub use level::Level;
pub use output::{Journal, init, stderr_is_journal};
pub use queue::flush;

/// The target of all our events; those of libraries become `library_warning` and `library_error`.
const TARGET: &str = "ganglion";
