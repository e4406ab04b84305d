//! The files of a model: opened, checked completely, and read row by row. Opening reads headers only, and checks every
//! dimension, offset and size against the files before memory is allocated.
//! Not here: weights in memory, and conversion to f32.

mod assistant;
mod config;
mod files;
mod foreign;
mod gguf;
mod huggingface;
mod identity;
mod language_source;

mod parts;
mod plan;
mod quantization;
mod read_buffer;
mod safetensors;
mod sampling;
mod stored;
mod templates;
mod tower;
mod unread;

pub use assistant::AssistantCheckpoint;
pub use files::files_of;
pub(in crate::model) use files::read_text;
pub use identity::Identity;
pub use language_source::{GgufVocabulary, HuggingFaceFiles, LanguageSource};
pub use parts::{all_parts, first_part};
pub use read_buffer::ReadBuffer;
pub use sampling::{Recommended, Setting};
pub use templates::ChatTemplates;
pub use tower::{TowerCheckpoint, TowerTensor};
pub use unread::Checkpoint;

use std::path::Path;

use super::error::ModelError;

impl Checkpoint {
    /// Opens a `.gguf` file (the first part of a split one), or a directory with `config.json` and `model.safetensors` (or
    /// `model.safetensors.index.json` and its shards).
    ///
    /// # Errors
    /// If a file cannot be read, is damaged, or holds a model that `forward` does not compute.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        if path.is_dir() {
            huggingface::open(path)
        } else {
            gguf::open(path)
        }
    }
}

impl AssistantCheckpoint {
    /// Opens a `.gguf` file or a directory, as `Checkpoint::open` does. Returns `None` if it has no assistant.
    ///
    /// # Errors
    /// If a file cannot be read, or an assistant is damaged.
    pub fn open(path: &Path) -> Result<Option<Self>, ModelError> {
        if path.is_dir() {
            huggingface::open_assistant(path)
        } else {
            gguf::open_assistant(path)
        }
    }
}
