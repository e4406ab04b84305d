//! The D-Bus interfaces: they check callers and arguments, and turn the engine's events into streams.
//!
//! Nothing here computes, and nothing here waits for the model: the engine is known by its `Handle` alone.
//! A call's way: `transport` sifts it and puts it to its sender's account (`accounts`, `unread`); what is kept of it is
//! bounded as it is decoded (`argument`, `entries`), an interface (`manager`, `session`) reads
//! `options` and `messages`, `delivery` queues it and makes its object (`opening` a session's), `stream` writes its frames,
//! `deltas` sends signals, `output` keeps what calls read; `gate` shows each caller its own `objects`, by the `members` of
//! which it completes calls, and answers those of `properties` that zbus refuses; `undelivered` answers who can take no pipe. `registry` knows what
//! each connection owns, and `departure` ends it when that leaves; `permits` counts what each user has, whom `users` knows,
//! as the system does their `groups`, and `realtime` knows who may come before all others.

mod accounts;
mod address;
mod argument;
mod authorize;
mod complaints;
mod completion;
mod config;
mod connect;
mod delivery;
mod deltas;
mod departure;
mod diagnostics;
mod entries;
mod error;
mod frame;
mod gate;
mod groups;
mod hold;
mod holds;
mod info;
mod likelihoods;
mod link;
mod manager;
mod members;
mod messages;
mod objects;
mod offered;
mod opening;
mod option_table;
mod options;
mod output;
mod own_name;
mod permits;
mod properties;
pub mod proxy;
mod publish;
mod realtime;
mod registry;
mod reload;
mod request;
mod sealed;
mod session;
mod shared;
mod statistics;
mod stream;
mod transport;
mod undelivered;
mod unread;
mod users;

pub use address::Address;
pub use argument::TEXT_BYTES;
pub use config::BusConfig;
pub use connect::{Bus, serve};
pub use error::{ERRORS, Error, METHOD_ERRORS};
pub use frame::Frame;
pub use info::graph_keys;
pub use link::BusError;
pub use option_table::{Allowed, OPTIONS, Of, OptionKey};
pub use own_name::OwnName;
pub use reload::ReloadCall;

/// The name that the daemon owns.
pub const NAME: &str = "org.ganglion.Llm1";
/// The object that carries `Manager` and `Diagnostics`; sessions and requests lie below it.
pub const PATH: &str = "/org/ganglion/Llm1";
