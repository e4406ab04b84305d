//! The HTTP front end: OpenAI's API, and Anthropic's messages, on sockets that systemd passes. It decodes requests, checks
//! them with `front`, and writes answers as JSON or as server-sent events.
//!
//! Limits and rights that any front end checks are in `front`; nothing here computes, or opens a port.

// Sockets, connections, and who calls.
mod caller;
mod config;
mod keys;
pub mod listen;
mod refusals;
mod server;
mod traffic;

// The endpoints, and what they share.
mod answer;
mod anthropic;
mod chain;
mod chat;
mod completions;
mod error;
mod error_form;
mod health;
mod held;
mod metrics;
mod models;
mod raw;
mod request;
mod responses;
mod router;
mod running;
mod session;
mod shared;
mod stored;
mod tables;
mod terms;
#[cfg(test)]
mod tests;

pub use config::HttpConfig;
pub use error::Error;
pub use keys::{KeyError, Keys};
pub use metrics::{Kind, METRICS, Metric};
pub use request::table::{Field, Object, Rule, Table};
pub use server::{Http, serve};
pub use shared::Shared;
pub use tables::TABLES;
