//! Errors of a model's files.

use std::path::{Path, PathBuf};

use super::shown::{sentence, shown};
use crate::quant::USUAL_FILES;

/// The reason why a checkpoint cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {defect}", path.display())]
pub struct ModelError {
    /// The file or directory at fault.
    pub path: PathBuf,
    pub defect: Defect,
}

/// The defect of a file. Messages name the value and the remedy; text from a file is escaped and bounded.
#[derive(Debug, thiserror::Error)]
pub enum Defect {
    #[error("{0}; model.path must name a file that the daemon's user may read")]
    Io(#[from] std::io::Error),
    #[error(
        "is not a model: give a .gguf file, or a directory with config.json and model.safetensors"
    )]
    NotAModel,
    /// The file or folder is of another kind.
    #[error("is {}: {remedy}", sentence(.what))]
    Foreign { what: String, remedy: String },
    /// A folder lacks one of a model's files.
    #[error("{}: {remedy}", sentence(.what))]
    Missing { what: String, remedy: String },
    #[error(
        "{}: quantized by {}, which is not supported: take the model in F16 or BF16, or a GGUF file of it \
         in {}",
        shown(key),
        shown(method),
        USUAL_FILES
    )]
    Quantized { key: String, method: String },
    /// The structure violates its format, or ends too early.
    #[error("{}; the file is damaged or incomplete: fetch it again", sentence(.0))]
    Malformed(String),
    #[error(
        "architecture \"{}\" is not supported; supported: {known}",
        shown(name)
    )]
    UnknownArchitecture { name: String, known: String },
    #[error(
        "required key {0} is missing; download the model again, or use a newer conversion of it"
    )]
    MissingKey(String),
    #[error("{} = {}: {allowed}", shown(key), shown(value))]
    BadValue {
        key: String,
        value: String,
        /// The allowed values.
        allowed: String,
    },
    #[error("has no usable vocabulary: {}", sentence(.0))]
    NoLanguage(String),
    #[error("required tensor {0} is missing; download all files of the model again")]
    MissingTensor(String),
    #[error("tensor {}: {}", shown(name), sentence(problem))]
    Tensor { name: String, problem: String },
}

impl Defect {
    pub(super) fn bad_value(
        key: impl Into<String>,
        value: impl std::fmt::Display,
        allowed: impl Into<String>,
    ) -> Self {
        Self::BadValue {
            key: key.into(),
            value: value.to_string(),
            allowed: allowed.into(),
        }
    }

    pub(super) fn tensor(name: &str, problem: impl Into<String>) -> Self {
        Self::Tensor {
            name: name.to_owned(),
            problem: problem.into(),
        }
    }

    pub(super) fn foreign(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Foreign {
            what: what.into(),
            remedy: remedy.into(),
        }
    }

    pub(super) fn missing(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Missing {
            what: what.into(),
            remedy: remedy.into(),
        }
    }

    /// Adds the file at fault.
    pub(super) fn at(self, path: &Path) -> ModelError {
        ModelError {
            path: path.to_owned(),
            defect: self,
        }
    }
}
