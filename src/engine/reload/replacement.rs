//! A loaded model on its way to the engine thread, and the errors of a reload.

use std::path::PathBuf;
use std::time::Instant;

use tokio::sync::oneshot;

use super::loaded_model::LoadedModel;
use crate::engine::caller::request::Refusal;
use crate::load::LoadError;
use crate::runner::RunError;

/// What was done to apply settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// They were active already.
    Nothing,
    /// Only the mode of the decode graph differed.
    GraphMode,
    /// A model was loaded.
    Model,
}

/// Why the old model stays.
#[derive(Debug, thiserror::Error)]
pub enum ReplaceError {
    #[error("{0}")]
    Refused(#[from] Refusal),
    #[error("model.path {}: {error}", model.display())]
    Model { model: PathBuf, error: LoadError },
    #[error(
        "there is no room for the new model beside the one that runs, which holds {} MiB: {error}. A restart makes room \
         for it: systemctl restart gangliond",
        held >> 20
    )]
    NeedsRestart {
        error: LoadError,
        /// Bytes.
        held: u64,
    },
    #[error("{0}. A restart would not make room for it either")]
    Memory(LoadError),
    #[error("the new model was loaded, but its device cannot be used: {0}")]
    Device(#[from] RunError),
    #[error("{0}")]
    NotSupported(String),
    #[error("the thread that loads the model {0}")]
    Loader(String),
}

/// A loaded model on its way to the engine thread.
#[derive(Debug)]
pub struct Replacement {
    pub(crate) model: LoadedModel,
    /// When active generations continue with this model.
    pub(crate) due: Instant,
    pub(crate) reply: oneshot::Sender<Result<(), ReplaceError>>,
}
