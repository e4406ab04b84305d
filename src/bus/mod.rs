//! The D-Bus interfaces: they check callers and arguments, and turn tickets into streams.
//!
//! Nothing here computes, and nothing here waits for the model: the engine is known by its `Handle` alone.

mod error;
mod frame;
pub mod proxy;

pub use error::Error;
pub use frame::Frame;

/// The name that the daemon owns.
pub const NAME: &str = "org.ganglion.Llm1";
/// The object that carries `Manager` and `Diagnostics`; sessions and requests lie below it.
pub const PATH: &str = "/org/ganglion/Llm1";
