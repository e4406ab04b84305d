//! Reads a configuration from its files, or from a text.

use std::path::Path;

use super::checked::Config;
use super::error::ConfigError;
use super::files::Files;

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
