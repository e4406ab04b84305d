//! The daemon as systemd and its operators meet it.

mod catalog;
mod units;
