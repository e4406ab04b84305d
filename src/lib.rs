//! Ganglion keeps one language model warm on the robot and lets every program talk to it over D-Bus.
//!
//! Arrows point one way: `bus -> engine -> model -> tape -> device`. The bus never names a device, the engine
//! never names D-Bus. A token's way: `bus::manager` queues a turn, `engine::worker` prefills it,
//! `tape` computes one step, `model::tokenizer` turns the id into text, `bus::stream` writes it.

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
