//! One answer while it is generated: its prompt's progress, its tokens, its text, its end.
//!
//! It never runs a step and never chooses which generation runs next: `worker` and `schedule` do.

mod acceptances;
pub(super) mod drafts;
mod guesses;
mod guided;
mod heading;
mod sending;
pub(super) mod speech;
pub(super) mod state;
pub(super) mod stop;
mod token_times;
