//! The errors of loading a model.

use std::path::PathBuf;

use super::admission::MemoryRefusal;
use super::kv_choice::Unsupported;
use super::kv_memory::LessThanAPage;
use super::tower_mismatch::TowerMismatch;
#[cfg(feature = "cuda")]
use crate::cuda;
use crate::executor::FillError;
use crate::model::language::VocabularyDifference;
use crate::model::language_error::LanguageError;
use crate::model::{AssistantMismatch, ModelError};
use crate::runner::{EncodeError, RunError};
use crate::tape::TapeError;

/// Why a model could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The tokenizer or the chat template.
    #[error("{}: {error}", model.display())]
    Language {
        model: PathBuf,
        error: LanguageError,
    },
    #[error("the model does not fit its tape: {0}")]
    Tape(#[from] TapeError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Tower(#[from] EncodeError),
    #[cfg(feature = "cuda")]
    #[error("backend cuda: {0}")]
    Device(#[from] cuda::Error),
    #[cfg(feature = "cuda")]
    #[error("backend cuda: {0}")]
    Unsuited(#[from] cuda::Unsuited),
    #[cfg(not(feature = "cuda"))]
    #[error(
        "backend cuda: this build has none; use backend = \"cpu\", or a build with the feature cuda"
    )]
    NoCuda,
    #[error("the weights cannot be read: {0}")]
    Fill(#[from] FillError),
    #[error("the threads cannot be started: {0}; lower cpu.threads")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    #[error(
        "kv.context = {asked} is more than the {trained} positions that the model was trained for; lower it, or set it to 0"
    )]
    Context { asked: usize, trained: usize },
    #[error(
        "kv.type = \"{name}\" takes heads of a multiple of {granule}, and the model's have {head_dim}: use kv.type = \"f16\""
    )]
    KvType {
        name: &'static str,
        granule: usize,
        head_dim: usize,
    },
    #[error("model.vision: {}: {mismatch}; give the mmproj file of this model, or set it to \"none\"", path.display())]
    Unfit {
        path: PathBuf,
        mismatch: TowerMismatch,
    },
    #[error("model.vision: {}: {error}; give the mmproj file of this model, or set it to \"none\"", path.display())]
    Vision {
        path: PathBuf,
        error: Box<ModelError>,
    },
    #[error(
        "both {} and {} may be the vision tower of this model; set model.vision to one of them, or to \"none\"",
        first.display(), second.display()
    )]
    Towers { first: PathBuf, second: PathBuf },
    #[error("draft.model {}: {error}", draft.display())]
    Draft {
        draft: PathBuf,
        error: Box<LoadError>,
    },
    #[error(
        "draft.model: {} has not the vocabulary of {}: {difference}; name a smaller model of the same family, or remove the key",
        draft.display(), model.display()
    )]
    DraftVocabulary {
        model: PathBuf,
        draft: PathBuf,
        difference: Box<VocabularyDifference>,
    },
    #[error(
        "draft.model: {} has recurrent layers, and wrong guesses cannot be undone in them: name a model of attention layers alone, or remove the key",
        draft.display()
    )]
    DraftRecurrent { draft: PathBuf },
    #[error(
        "draft.model: {} does not guess for {}: {mismatch}; name the assistant of this model, or remove the key",
        draft.display(), model.display()
    )]
    Assistant {
        model: PathBuf,
        draft: PathBuf,
        mismatch: AssistantMismatch,
    },
    #[error(
        "engine.guess = \"head\": {} has no head that guesses tokens; set engine.guess to another value, or draft.model to the assistant of a Gemma 4",
        model.display()
    )]
    NoHead { model: PathBuf },
    #[error(
        "engine.guess = \"head\": {}: the head that guesses tokens cannot be used: {defect}; set engine.guess to another value, or give other files of the model",
        model.display()
    )]
    Head { model: PathBuf, defect: String },
    #[error("kv.type_k, kv.type_v: {0}")]
    KvTypes(#[from] Unsupported),
    #[error(transparent)]
    KvMemory(#[from] LessThanAPage),
    #[error(transparent)]
    Memory(#[from] MemoryRefusal),
}

impl LoadError {
    /// Whether the device or the system is the reason, and not the settings or the files.
    #[must_use]
    pub fn is_of_machine(&self) -> bool {
        if let Self::Draft { error, .. } = self {
            return error.is_of_machine();
        }
        #[cfg(feature = "cuda")]
        if matches!(self, Self::Device(_)) {
            return true;
        }
        matches!(
            self,
            Self::Run(_)
                | Self::Fill(_)
                | Self::Threads(_)
                | Self::Language {
                    error: LanguageError::Process(_),
                    ..
                }
        )
    }

    /// Whether the device is lost, so that this process must end.
    pub(crate) fn is_fatal(&self) -> bool {
        match self {
            Self::Run(error) => error.is_fatal(),
            #[cfg(feature = "cuda")]
            Self::Device(error) => error.is_sticky(),
            Self::Draft { error, .. } => error.is_fatal(),
            _ => false,
        }
    }

    /// Whether a load may succeed a moment later: when a machine starts, the GPU's driver may start after the daemon.
    pub(crate) fn may_pass(&self) -> bool {
        if let Self::Draft { error, .. } = self {
            return error.may_pass();
        }
        #[cfg(feature = "cuda")]
        if let Self::Device(error) = self {
            use cuda::Error::{NoDevice, NoNode, Permission};
            return matches!(error, NoDevice | NoNode { .. } | Permission { .. });
        }
        // Other processes may use all threads for a while.
        matches!(self, Self::Threads(_))
    }

    /// Returns the driver's name of the error, if the driver reported it.
    pub(crate) fn driver_error(&self) -> Option<&str> {
        match self {
            Self::Run(error) => error.driver_error(),
            #[cfg(feature = "cuda")]
            Self::Device(error) => error.driver_error(),
            Self::Draft { error, .. } => error.driver_error(),
            _ => None,
        }
    }

    /// Returns the bytes that are missing, 0 if their number is unknown; `None` if more memory would not help.
    pub(crate) fn shortage(&self) -> Option<u64> {
        match self {
            Self::Memory(refusal) => refusal.shortage(),
            Self::Draft { error, .. } => error.shortage(),
            #[cfg(feature = "cuda")]
            Self::Device(cuda::Error::OutOfMemory { need, free }) => {
                Some(need.saturating_sub(*free))
            }
            #[cfg(feature = "cuda")]
            Self::Device(cuda::Error::NoMemory { .. }) => Some(0),
            _ => None,
        }
    }
}
