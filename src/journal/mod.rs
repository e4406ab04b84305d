//! The journal: the table of all events that the daemon reports (`events`), and their way to systemd's journal through
//! a queue, so that reporting never waits. An event has a message for people, fields for programs, and an id that leads
//! to its remedy in `systemd/gangliond.catalog`.
//! Not here: prompts and answers, which are in no event.

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

/// The target of the daemon's own events; those of libraries become `library_warning` and `library_error`.
const TARGET: &str = "ganglion";
