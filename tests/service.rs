//! The daemon as systemd and its operators meet it.

mod dropped_turns;
#[cfg(feature = "cuda")]
mod backends;
mod bus_lost;
mod catalog;
#[cfg(feature = "cuda")]
mod crash;
mod gangliond;
mod lifecycle;
mod named_sessions;
mod read_only;
mod recommended_sampling;
mod start_failures;
mod reload;
mod journal;
mod watchdog;
mod state_folder;
mod units;
