//! An assistant that the settings name as the draft model: it guesses as the head of its model, and is a part of its plan.

use std::path::{Path, PathBuf};

use super::admission::MemoryRefusal;
use super::error::LoadError;
use crate::model::AssistantCheckpoint;

/// An assistant. Its weights are not loaded, and `plan` checks whether it fits its model.
#[derive(Debug)]
pub struct OpenAssistant {
    pub path: PathBuf,
    /// The model that it is opened for.
    model: PathBuf,
    pub(super) files: AssistantCheckpoint,
}

impl OpenAssistant {
    /// Opens an assistant; `None` if the files have another model, or none.
    pub(super) fn open(path: &Path, model: &Path) -> Result<Option<Self>, LoadError> {
        let opened = AssistantCheckpoint::open(path).map_err(|error| LoadError::Draft {
            draft: path.to_owned(),
            error: Box::new(error.into()),
        })?;
        Ok(opened.map(|files| Self {
            path: path.to_owned(),
            model: model.to_owned(),
            files,
        }))
    }

    /// Names the assistant in a refusal of its model's memory, of which it needs a part.
    pub(super) fn named_in(&self, error: LoadError) -> LoadError {
        let LoadError::Memory(refusal) = error else {
            return error;
        };
        let AssistantCheckpoint {
            checkpoint,
            join,
            hidden,
            ..
        } = &self.files;
        let MemoryRefusal::Memory { estimate: both, .. } = &refusal else {
            return LoadError::Memory(refusal);
        };
        let bytes = checkpoint.weight_bytes() + (join.bytes() + hidden.bytes()) as u64;
        LoadError::Memory(MemoryRefusal::WithDraft {
            model: self.model.clone(),
            model_bytes: both.bytes().saturating_sub(bytes),
            draft: self.path.clone(),
            bytes,
            refusal: Box::new(refusal),
        })
    }
}
