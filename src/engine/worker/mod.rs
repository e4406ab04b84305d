//! The engine thread: it runs the steps and prefills of all active generations, and moves pages between them.
//!
//! `serve` is its loop, and `state` what it owns. It decides nothing that `schedule` can decide, and encodes no prompt.

mod serve;
mod slots;
mod state;
// A request gets a slot, and its prompt is prefilled.
mod arrivals;
mod encoding;
mod joining;
mod preemption;
mod prefill;
// Steps of all generations whose prompt is in the cache.
mod draft;
mod drafting;
mod head;
mod masks;
mod steps;
// Pages, memory and the board, between two steps.
mod board;
mod memory;
mod pressure;
mod restore;
mod restoring;
mod saving;
mod unsaved;
// Without a model, between two loads.
mod dormant;
mod loading;
mod unload;
mod unloading;

pub use super::reload::loaded_model::Settings;
pub use serve::run;

#[cfg(test)]
mod tests;
