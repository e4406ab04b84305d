//! The daemon as systemd and its operators meet it.

#[cfg(feature = "cuda")]
mod backends;
mod catalog;
#[cfg(feature = "cuda")]
mod crash;
mod gangliond;
mod lifecycle;
mod refusals;
mod reload;
mod reporting;
mod standstill;
mod units;
