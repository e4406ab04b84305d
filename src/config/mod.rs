//! The configuration: a TOML file, read once and checked whole.
//!
//! Two types, two stages. `Document` is what was typed: any value at any known key, each with its place in
//! the file. `Config` is what it means: every value present, in range and ready to use. Nothing here opens
//! a model or starts anything, and a key that does nothing does not exist.

mod check;
mod choice;
mod document;
mod error;
mod place;
mod sections;

use std::fs;
use std::path::Path;

use serde::Serialize;

pub use choice::{Activations, Backend, Choice, GraphMode, KvType, Level, Placement};
pub use error::ConfigError;
pub use sections::{
    Cpu, Device, Engine, Graph, GraphDebug, Kv, Limits, Log, Memory, Model, Queue, Sampling, Stop,
    Stream,
};

/// Where the package puts the file.
pub const DEFAULT_FILE: &str = "/etc/ganglion/gangliond.toml";

/// A configuration in which every value has been checked. Serialised, it has the shape of the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Config {
    pub backend: Backend,
    pub model: Model,
    pub kv: Kv,
    pub graph: Graph,
    pub memory: Memory,
    pub device: Device,
    pub cpu: Cpu,
    pub engine: Engine,
    pub queue: Queue,
    pub limits: Limits,
    pub sampling: Sampling,
    pub stream: Stream,
    pub stop: Stop,
    pub log: Log,
}

impl Config {
    /// Reads and checks `file`.
    ///
    /// # Errors
    /// `Unreadable` names the file, `Invalid` also line, column, key, value and what is allowed.
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        let text = fs::read_to_string(file).map_err(|source| ConfigError::Unreadable {
            file: file.to_owned(),
            source,
        })?;
        Self::parse(&text, file)
    }

    /// Checks `text`, the contents of `file`; a relative `model.path` starts from the file's directory.
    ///
    /// # Errors
    /// `Invalid`, as for `read`.
    pub fn parse(text: &str, file: &Path) -> Result<Self, ConfigError> {
        document::Document::parse(text)
            .and_then(|document| check::config(&document, file.parent()))
            .map_err(|fault| fault.locate(text, file))
    }

    /// The model to serve; `file` is where it should have been named.
    ///
    /// # Errors
    /// `NoModel` if it is not.
    pub fn model_path(&self, file: &Path) -> Result<&Path, ConfigError> {
        self.model
            .path
            .as_deref()
            .ok_or_else(|| ConfigError::NoModel { file: file.into() })
    }
}
