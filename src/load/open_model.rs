//! Opens a model's files, except the weights, and checks whether the model can be served.
//!
//! The daemon and the programs that check a model before it starts share this code, so that their answers cannot differ.

use std::path::Path;

use super::assistant::OpenAssistant;
use super::error::LoadError;
use super::plan::plan;
use super::settings::Settings;
use crate::model::{Checkpoint, Language};
use crate::tape::{Ending, Input};

/// A part of a model that is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenPart {
    /// The weights' names and shapes, and the configuration.
    Checkpoint,
    /// The tokenizer and the chat templates.
    Language,
}

/// A model whose files can be served.
#[derive(Debug)]
pub struct OpenModel {
    pub checkpoint: Checkpoint,
    pub language: Language,
}

impl OpenModel {
    /// Opens a `.gguf` file or a safetensors directory, its tokenizer and its chat templates; `chat_template` is a file that
    /// replaces those of the model.
    ///
    /// # Errors
    /// Each one with which the daemon would refuse the files.
    pub fn read(path: &Path, chat_template: Option<&Path>) -> Result<Self, LoadError> {
        Self::read_in_parts(path, chat_template, |_| ())
    }

    /// Opens the files, and calls `begins` before each part.
    pub(crate) fn read_in_parts(
        path: &Path,
        chat_template: Option<&Path>,
        mut begins: impl FnMut(OpenPart),
    ) -> Result<Self, LoadError> {
        begins(OpenPart::Checkpoint);
        let mut checkpoint = Checkpoint::open(path)?;
        if let Some(file) = chat_template {
            checkpoint.use_chat_template(file)?;
        }
        begins(OpenPart::Language);
        let source = checkpoint.language_source()?;
        let language = Language::load(source).map_err(|error| LoadError::Language {
            model: path.to_owned(),
            error,
        })?;
        Ok(Self {
            checkpoint,
            language,
        })
    }

    /// Checks the settings against the model, and its assistant if it has one. `admit` checks its memory.
    ///
    /// # Errors
    /// Each one with which the daemon would refuse to run the model so.
    pub fn check(
        &self,
        assistant: Option<&OpenAssistant>,
        settings: &Settings,
    ) -> Result<(), LoadError> {
        let (forward, _) = plan(&self.checkpoint, assistant, settings)?;
        forward.tape(1, Input::Step, Ending::Token).check()?;
        if let Some(pass) = forward.guess_tape(2) {
            pass.check()?;
        }
        Ok(())
    }
}
