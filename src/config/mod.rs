//! The configuration: a TOML file and the drop-ins beside it, read together and checked whole.
//!
//! Two types, two stages. `Document` is what was typed: any value at any known key, each with its place in
//! its file. `Config` is what it means: every value present, in range and ready to use. Nothing here opens
//! a model or starts anything, and a key that does nothing does not exist.

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
    /// Reads `file` and its drop-ins, and checks them as one; without `file` itself, drop-ins are enough.
    ///
    /// # Errors
    /// `Unreadable` and `DropIn` name the file, `Invalid` also line, column, key, value and what is allowed.
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        Files::read(file)?.check(file.parent())
    }

    /// Checks `text`, the contents of `file`; a relative `model.path` starts from the file's directory.
    ///
    /// # Errors
    /// `Invalid`, as for `read`.
    pub fn parse(text: &str, file: &Path) -> Result<Self, ConfigError> {
        Files::of(file, text).check(file.parent())
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
