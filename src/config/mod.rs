//! The configuration: a TOML file and its drop-ins are read as a `Document` (the typed values with their places) and
//! checked into a `Config` (every value present and in range).
//! Not here: opening a model or starting anything. Every key has an effect.

mod check;
mod checked;
mod document;
mod error;
mod files;
mod position;
mod reading;
mod sections;
mod socket_users;

pub use checked::Config;
pub use error::ConfigError;
pub use files::drop_ins;
pub use sections::{
    Cpu, Device, Engine, Graph, GraphDebug, Hold, Http, Kv, Limits, Log, Memory, Model, Queue,
    Reload, Sampling, Sessions, Stop, Stream, Vision, Watchdog,
};
pub use socket_users::SocketUsers;

/// The path of the packaged file.
pub const DEFAULT_FILE: &str = "/etc/ganglion/gangliond.toml";
