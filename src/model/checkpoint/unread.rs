//! A model with checked files, whose weights are not read yet.

use std::ops::Range;
use std::path::Path;

use super::files::ModelFile;
use super::language_source::LanguageSource;
use super::read_buffer::ReadBuffer;
use super::sampling::Recommended;
use super::{quantization, templates};
use crate::model::error::{Defect, ModelError};
use crate::model::shape::{LayerShape, Shape};
use crate::model::weights::{GuessHead, Tensor, Weights};

/// A model with checked files, whose weights are not read yet.
#[derive(Debug)]
pub struct Checkpoint {
    /// The author's name for the model, or the file's name.
    pub name: String,
    pub shape: Shape,
    pub tensors: Weights<Tensor>,
    /// The head that guesses tokens, with its layer, if the files have one, or the reason why it cannot be used. It is no part
    /// of `shape` and `tensors`: a model is loaded without it unless its settings say otherwise.
    pub guess: Result<Option<(LayerShape, GuessHead<Tensor>)>, Defect>,
    /// The layers of the files that guess tokens. The head has the first one.
    pub guess_layers: usize,
    /// The sampling that its files recommend.
    pub sampling: Recommended,
    /// `general.file_type` of a GGUF file.
    pub(super) file_type: Option<usize>,
    pub(super) files: Vec<ModelFile>,
    /// The source, or what it lacks.
    pub(super) language: Result<LanguageSource, String>,
}

impl Checkpoint {
    /// Reads `rows` of a tensor, in the model's order and the file's format (`rows.len() * tensor.row_bytes()`).
    /// Several threads may read at once, each with a buffer of its own.
    ///
    /// # Panics
    /// If `rows` are not of the tensor.
    pub fn rows<'l>(
        &self,
        tensor: &Tensor,
        rows: Range<usize>,
        buffer: &'l mut ReadBuffer,
    ) -> Result<&'l [u8], ModelError> {
        assert!(rows.start <= rows.end && rows.end <= tensor.rows);
        let source = &self.files[tensor.file];
        source
            .rows(tensor, rows, buffer)
            .map_err(|defect| defect.at(&source.path))
    }

    /// Reads a vector (a norm's weight or a bias) as f32.
    pub fn vector(&self, tensor: &Tensor, buffer: &mut ReadBuffer) -> Result<Vec<f32>, ModelError> {
        let source = &self.files[tensor.file];
        source
            .vector(tensor, buffer)
            .map_err(|defect| defect.at(&source.path))
    }

    /// Returns the bytes of the weights in use; a tied head counts once.
    #[must_use]
    pub fn weight_bytes(&self) -> u64 {
        let mut bytes = 0;
        let _ = self.tensors.try_map(|tensor| {
            bytes += tensor.bytes() as u64;
            Ok::<_, std::convert::Infallible>(())
        });
        bytes
    }

    /// Returns the bytes of its files.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.length).sum()
    }

    /// Returns the number of its files.
    #[must_use]
    pub fn file_count(&self) -> usize {
        self.files.len()
    }

    /// Leaves the files in the page cache when their weights are read. Call it before the first read.
    pub fn stay_cached(&self) {
        self.files.iter().for_each(ModelFile::stay_cached);
    }

    /// Replaces the model's chat template by that of a file.
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

    /// Returns the number of parameters in use; a tied head counts once.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        let mut numbers = 0;
        let _ = self.tensors.try_map(|tensor| {
            numbers += (tensor.rows * tensor.columns) as u64;
            Ok::<_, std::convert::Infallible>(())
        });
        numbers
    }

    /// Returns the format of the weights: the GGUF file's name for it, or else the one of most bytes.
    #[must_use]
    pub fn quantization(&self) -> String {
        quantization::name(&self.tensors, self.file_type)
    }

    /// Returns the source of tokenizer and chat template.
    ///
    /// # Errors
    /// If a GGUF file has no vocabulary: it can still be driven by token ids.
    pub fn language_source(&self) -> Result<&LanguageSource, ModelError> {
        self.language
            .as_ref()
            .map_err(|missing| Defect::NoLanguage(missing.clone()).at(self.path()))
    }

    /// Returns the path of its first file.
    #[must_use]
    pub fn path(&self) -> &Path {
        let first = self.files.first();
        first.map_or(Path::new(""), |source| &source.path)
    }
}
