//! The daemon as systemd and its operators meet it.

mod catalog;
mod gangliond;
mod lifecycle;
mod refusals;
mod units;
