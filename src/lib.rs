//! Ganglion keeps one language model warm on the robot and lets every program use it over D-Bus.
//!
//! Dependencies point one way: `bus, http -> front -> engine -> runner -> executor`. The model and the executors depend on
//! `tape`, and `cuda` on `device`. The bus names no device, and the engine does not name D-Bus.
//!
//! The way of a token: `bus` accepts a request, and the engine's intake encodes and queues it. The engine's worker
//! prefills the prompt, and an executor runs the tape of each step. `model::tokenizer` turns the token into text, and
//! `bus` writes the text to the caller's stream.

pub mod bench;
pub mod board;
pub mod bus;
pub mod check;
pub mod choice;
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
pub mod front;
pub mod graph;
pub mod guess;
pub mod guide;
pub mod http;
pub mod journal;
pub mod kv;
pub mod kv_store;
pub mod load;
pub mod meminfo;
pub mod model;
pub mod nodes;
pub mod projection;
pub mod quant;
pub mod runner;
pub mod sampler;
pub mod service;
pub mod session_store;
pub mod tape;
pub mod telemetry;
pub mod tools;
pub mod trial;
pub mod vision;
