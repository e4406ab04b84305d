//! One integration binary; each module is named by the surface that it tests.
//!
//! Most modules talk over a private bus. A build on a machine without dbus-daemon leaves them out.
#![cfg_attr(not(dbus_daemon), allow(dead_code))]

#[cfg(dbus_daemon)]
mod admission;
mod architecture;
mod assistant;
#[cfg(dbus_daemon)]
mod bus;
mod check;
mod config;
#[cfg(dbus_daemon)]
mod ctl;
#[cfg(all(dbus_daemon, feature = "cuda"))]
mod doctor;
mod golden;
mod graph;
mod guided;
mod head;
mod hostile;
#[cfg(dbus_daemon)]
mod http;
mod images;
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
mod towers;
mod vision;
mod weights;

/// Reports the modules that this build leaves out.
#[cfg(not(dbus_daemon))]
#[test]
fn admission_bus_ctl_doctor_http_manual_service() {
    support::needs::missing(
        "dbus-daemon",
        "install Debian's package dbus and build again",
    );
}
