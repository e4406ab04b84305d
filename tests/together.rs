//! Many random conversations at once, compared with an engine that answers each request alone: other requests,
//! priorities and preemption change no answer.

mod alone;
mod arrivals;
mod asking;
mod assistants;
mod drafts;
mod engine;
mod guesses;
mod heads;
mod hot;
mod reloads;
mod shares;
mod talk;
mod unloads;

pub(crate) use engine::Engine;
pub(crate) use guesses::of_known_answers;
