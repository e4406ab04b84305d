//! The HTTP front end: OpenAI's API on sockets that systemd passes. It decodes requests, checks them with `front`, and
//! writes answers as JSON or as server-sent events.
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

// The API.
mod chat;
mod error;
mod health;
mod metrics;
mod models;
mod raw;
mod router;
mod running;
mod session;
mod shared;

pub use chat::fields::{FIELDS, Field, Object, Rule};
pub use config::HttpConfig;
pub use error::Error;
pub use keys::{KeyError, Keys};
pub use metrics::{Kind, METRICS, Metric};
pub use server::{Http, serve};
pub use shared::Shared;
