//! Errors of the configuration.

use std::io;
use std::path::{Path, PathBuf};

use super::position::Position;
use crate::http::KeyError;
use crate::tools::FormatError;

/// An error of the configuration. Its text names the file and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{}: {source}; create it, or name another with --config", file.display())]
    Unreadable { file: PathBuf, source: io::Error },
    #[error("{}: {source}; let the daemon's user read it, or take it away", file.display())]
    DropIn { file: PathBuf, source: io::Error },
    #[error("{}:{line}:{column}: {message}", file.display())]
    Invalid {
        file: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The column in characters, counted from 1.
        column: usize,
        message: String,
    },
    #[error(
        "{}: model.path is not set; under [model], name a GGUF file or a safetensors directory",
        file.display()
    )]
    NoModel { file: PathBuf },
    #[error("model.tool_formats: {0}")]
    Formats(#[from] FormatError),
    #[error("http.key_file: {0}")]
    Keys(#[from] KeyError),
}

/// An error at a byte of a text.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) at: usize,
    pub(super) message: String,
    /// Whether the message needs the line of text to name the value.
    pub(super) quote: bool,
}

impl Fault {
    /// Shifts the place by `offset` bytes.
    pub(super) fn after(mut self, offset: usize) -> Self {
        self.at += offset;
        self
    }

    /// Converts the place to line and column; `text` is all of `file`.
    pub(super) fn locate(self, text: &str, file: &Path) -> ConfigError {
        let Position { line, column, text } = Position::of(text, self.at);
        let mut message = self.message;
        if self.quote && !text.is_empty() {
            message = format!("{message}; the line is: {text}");
        }
        ConfigError::Invalid {
            file: file.into(),
            line,
            column,
            message,
        }
    }
}
