//! The configuration: a TOML file and its drop-ins are read as a `Document` (the typed values with their places) and
//! checked into a `Config` (every value present and in range).
//! Not here: opening a model or starting anything. Every key has an effect.

mod check;
mod document;
mod error;
mod files;
mod position;
mod sections;

use std::path::Path;

use serde::Serialize;

use crate::load::Backend;

pub use error::ConfigError;
use files::Files;
pub use files::drop_ins;
pub use sections::{
    Cpu, Device, Engine, Graph, GraphDebug, Hold, Kv, Limits, Log, Memory, Model, Queue, Reload,
    Sampling, Sessions, Stop, Stream, Watchdog,
};

/// The path of the packaged file.
pub const DEFAULT_FILE: &str = "/etc/ganglion/gangliond.toml";

/// A checked configuration. Serialized, it has the shape of the file.
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
    pub hold: Hold,
    pub reload: Reload,
    pub limits: Limits,
    pub sessions: Sessions,
    pub sampling: Sampling,
    pub stream: Stream,
    pub stop: Stop,
    pub watchdog: Watchdog,
    pub log: Log,
}

impl Config {
    /// Reads `file` and its drop-ins and checks them together. Drop-ins without `file` are enough.
    ///
    /// # Errors
    /// `Unreadable` and `DropIn` name the file; `Invalid` also names line, column, key, value and the allowed values.
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        Files::read(file)?.check(file.parent())
    }

    /// Checks `text`, the contents of `file`. A relative `model.path` starts in the file's directory.
    ///
    /// # Errors
    /// `Invalid`, as for `read`.
    pub fn parse(text: &str, file: &Path) -> Result<Self, ConfigError> {
        Files::of(file, text).check(file.parent())
    }

    /// Returns the path of the model to serve. Errors name `file` as its place.
    ///
    /// # Errors
    /// `NoModel` if the key is missing.
    pub fn model_path(&self, file: &Path) -> Result<&Path, ConfigError> {
        self.model
            .path
            .as_deref()
            .ok_or_else(|| ConfigError::NoModel { file: file.into() })
    }
}
