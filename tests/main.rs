//! One integration binary; each module is named by the surface that it tests.

mod admission;
mod architecture;
mod bus;
mod config;
mod ctl;
mod doctor;
mod golden;
mod graph;
mod hostile;
mod manual;
mod pull;
mod service;
mod support;
mod tape;
mod text;
mod weights;
