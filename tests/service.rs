//! The daemon as systemd and its operators meet it.

mod ahead;
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
mod recommended;
mod refusals;
mod reload;
mod reporting;
mod standstill;
mod state_folder;
mod units;
