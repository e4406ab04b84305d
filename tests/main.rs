//! One integration binary; each module is named by the surface that it tests.
//!
//! The build says whether dbus-daemon is there, which most of them talk through.
#![cfg_attr(not(dbus_daemon), allow(dead_code))]

#[cfg(dbus_daemon)]
mod admission;
mod architecture;
#[cfg(dbus_daemon)]
mod bus;
mod check;
mod config;
#[cfg(dbus_daemon)]
mod ctl;
// A board with a GPU is held against what this build can use.
#[cfg(all(dbus_daemon, feature = "cuda"))]
mod doctor;
mod golden;
mod graph;
mod guided;
mod hostile;
mod kv_types;
mod lasting;
#[cfg(dbus_daemon)]
mod manual;
mod memory;
mod pull;
mod rows;
#[cfg(dbus_daemon)]
mod service;
mod support;
mod tape;
mod text;
mod together;
mod tools;
mod weights;

#[cfg(not(dbus_daemon))]
#[test]
#[ignore = "NOT RUN: what talks over a bus: dbus-daemon is not installed (Debian's package dbus)"]
fn admission_bus_ctl_doctor_manual_service() {}
