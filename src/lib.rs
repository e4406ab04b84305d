//! Ganglion keeps one language model warm on the robot and lets every program talk to it over D-Bus.
//!
//! Modules use each other in one direction: `bus -> engine -> runner -> model -> tape -> device`. The bus never names a
//! device, and the engine never names D-Bus. `tests/architecture.rs` has the whole table.
//!
//! The way of a request: `bus::manager` passes it to `engine::intake`, which queues it. `engine::worker` prefills its prompt
//! and runs steps on a `runner`. `engine::generation` turns tokens into text, and `bus::stream` writes it.

pub mod bench;
pub mod bus;
pub mod check;
pub mod config;
pub mod confined;
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
pub mod device;
pub mod engine;
pub mod executor;
pub mod fault;
pub mod files;
pub mod graph;
pub mod guide;
pub mod journal;
pub mod kv;
pub mod kv_store;
pub mod load;
pub mod meminfo;
pub mod model;
pub mod nodes;
pub mod quant;
pub mod runner;
pub mod sampler;
pub mod service;
pub mod session_store;
pub mod tape;
pub mod telemetry;
pub mod tools;
