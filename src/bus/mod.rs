//! The D-Bus front end: decodes calls, checks them with `front`, and delivers answers through pipes, signals and objects.
//!
//! It holds the transport, the interfaces with their properties and signals, and the names of errors. Limits and rights
//! that any front end checks are in `front`; nothing here computes, or waits for the model.

// The transport, and defences against clients that send too much or do not read.
mod accounts;
mod bus_statistics;
mod returned_answers;
mod stalled_readers;
mod transport;

// The connection to the bus, and the connections of its clients.
mod address;
mod connect;
mod departures;
mod holds;
mod link;
mod own_name;
mod owner;
mod registry;
mod shared;
mod users;

// Arguments and results.
mod argument;
mod board_info;
mod error;
mod frame;
mod info;
mod messages_argument;
mod options;
mod options_argument;
mod options_table;
mod parts_argument;
mod sealed;
mod tools_argument;

// Objects: interfaces, properties, introspection.
mod call_filter;
mod config;
mod diagnostics;
mod hold;
mod manager;
mod members;
mod objects;
mod open_session;
mod properties;
mod property_changes;
pub mod proxy;
mod reload;
mod request;
mod session;

// Delivery of answers.
mod complete;
mod delivery;
mod deltas;
mod likelihoods;
mod output;
mod stream;

pub use address::Address;
pub use config::BusConfig;
pub use connect::{Bus, serve};
pub use error::{ERRORS, Error, METHOD_ERRORS};
pub use frame::Frame;
pub use info::graph_keys;
pub use link::BusError;
pub use options_table::{Allowed, OPTIONS, Of, OptionKey};
pub use own_name::OwnName;
pub use reload::ReloadCall;

pub use crate::front::TEXT_BYTES;

/// The name that the daemon owns.
pub const NAME: &str = "org.ganglion.Llm1";
/// The object with `Manager` and `Diagnostics`; sessions and requests lie below it.
pub const PATH: &str = "/org/ganglion/Llm1";
