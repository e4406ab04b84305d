//! The daemon as systemd and its operators meet it.

#[cfg(feature = "cuda")]
mod backends;
mod board;
mod bus_lost;
mod catalog;
#[cfg(feature = "cuda")]
mod crash;
mod dropped_turns;
mod gangliond;
mod journal;
mod kept_pictures;
mod lifecycle;
mod named_sessions;
mod read_only;
mod recommended_sampling;
mod reload;
mod seeing;
mod start_failures;
mod state_folder;
mod units;
mod watchdog;
