//! The files of a model: found, checked whole, and read row by row.
//!
//! Opening reads headers only. Every dimension, offset and size has been checked against the files
//! before anything is allocated for it; nothing is expanded to f32 or kept in memory here.

mod config;
mod files;
mod foreign;
mod gguf;
mod huggingface;
mod identity;
mod landing;
mod language_source;
mod names;
mod parts;
mod plan;
mod quantization;
mod safetensors;
mod sampling;
mod stored;
mod templates;

pub use files::files_of;
pub(in crate::model) use files::read_text;
pub use identity::Identity;
pub use landing::Landing;
pub use language_source::{GgufVocabulary, HuggingFaceFiles, LanguageSource};
pub use parts::{all_parts, first_part};
pub use sampling::{Recommended, Setting};
pub use templates::ChatTemplates;

use std::ops::Range;
use std::path::Path;

use files::Source;

use super::{Defect, ModelError, Shape, Tensor, Weights};

/// A model whose files have been checked and whose weights have not been read.
#[derive(Debug)]
pub struct Checkpoint {
    /// What its author calls it, or its file's name.
    pub name: String,
    pub shape: Shape,
    pub tensors: Weights<Tensor>,
    /// The sampling that its files recommend.
    pub sampling: Recommended,
    /// `general.file_type` of a GGUF file.
    file_type: Option<usize>,
    files: Vec<Source>,
    /// Or what it lacks.
    language: Result<LanguageSource, String>,
}

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

    /// Reads `rows` of a tensor, in the model's order and the file's format (`rows.len() * tensor.row_bytes()`).
    /// Threads may read at once, each with a landing of its own.
    ///
    /// # Panics
    /// If `rows` are not of the tensor.
    pub fn rows<'l>(
        &self,
        tensor: &Tensor,
        rows: Range<usize>,
        landing: &'l mut Landing,
    ) -> Result<&'l [u8], ModelError> {
        assert!(rows.start <= rows.end && rows.end <= tensor.rows);
        let source = &self.files[tensor.file];
        source
            .rows(tensor, rows, landing)
            .map_err(|defect| defect.at(&source.path))
    }

    /// A vector (a norm's weight or a bias) as f32.
    pub fn vector(&self, tensor: &Tensor, landing: &mut Landing) -> Result<Vec<f32>, ModelError> {
        let source = &self.files[tensor.file];
        source
            .vector(tensor, landing)
            .map_err(|defect| defect.at(&source.path))
    }

    /// Bytes of the weights in use; a tied head counts once.
    #[must_use]
    pub fn weight_bytes(&self) -> u64 {
        let mut bytes = 0;
        let _ = self.tensors.try_map(|tensor| {
            bytes += tensor.bytes() as u64;
            Ok::<_, std::convert::Infallible>(())
        });
        bytes
    }

    /// Takes the chat template of a file in place of the model's own.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn use_chat_template(&mut self, file: &Path) -> Result<(), ModelError> {
        let template = Some(templates::of_file(file)?);
        match &mut self.language {
            Ok(LanguageSource::Gguf(vocabulary)) => vocabulary.chat_template = template,
            Ok(LanguageSource::HuggingFace(files)) => files.chat_template = template,
            Err(_) => {}
        }
        Ok(())
    }

    /// How many numbers the weights in use are; a tied head counts once.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        let mut numbers = 0;
        let _ = self.tensors.try_map(|tensor| {
            numbers += (tensor.rows * tensor.columns) as u64;
            Ok::<_, std::convert::Infallible>(())
        });
        numbers
    }

    /// The format of its weights: as a GGUF file calls it, or else the one that most bytes of them have.
    #[must_use]
    pub fn quantization(&self) -> String {
        quantization::name(&self.tensors, self.file_type)
    }

    /// Where its tokenizer and chat template are.
    ///
    /// # Errors
    /// A GGUF file without a vocabulary: it can still be driven by token ids.
    pub fn language_source(&self) -> Result<&LanguageSource, ModelError> {
        self.language.as_ref().map_err(|missing| {
            let path = self
                .files
                .first()
                .map_or(Path::new(""), |source| &source.path);
            Defect::NoLanguage(missing.clone()).at(path)
        })
    }
}
