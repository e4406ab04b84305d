//! The sources of a model's tokenizer and chat template, which `Language` reads.

use std::path::PathBuf;

use super::templates::ChatTemplates;

/// The language part of a checkpoint, checked only against the size of its vocabulary.
#[derive(Clone, Debug)]
pub enum LanguageSource {
    Gguf(GgufVocabulary),
    HuggingFace(HuggingFaceFiles),
}

/// The `tokenizer.*` metadata of a GGUF file.
#[allow(clippy::struct_excessive_bools)] // each is a key of the file, or of its name
#[derive(Clone, Debug)]
pub struct GgufVocabulary {
    /// `tokenizer.ggml.model`: "gpt2" is byte-level BPE, "llama" SentencePiece, "gemma4" BPE over characters.
    pub model: String,
    /// `tokenizer.ggml.pre`: the pre-tokenizer's name.
    pub pre: Option<String>,
    /// (vocabulary): the spelling of each id.
    pub tokens: Vec<String>,
    /// (vocabulary), or empty: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte.
    pub token_types: Vec<i32>,
    /// Pairs written `left right`, the most frequent first; empty where the model is not BPE.
    pub merges: Vec<String>,
    /// (vocabulary), or empty: SentencePiece joins tokens to that with the highest score.
    pub scores: Vec<f32>,
    /// Whether SentencePiece puts a space before a text.
    pub add_space_prefix: bool,
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    /// End of turn.
    pub eot: Option<u32>,
    /// End of message.
    pub eom: Option<u32>,
    pub pad: Option<u32>,
    pub add_bos: bool,
    pub add_eos: bool,
    /// Whether special tokens take the white space after them, which the file does not say.
    pub strips: bool,
    pub chat_template: Option<ChatTemplates>,
}

/// The language files of a safetensors model.
#[derive(Clone, Debug)]
pub struct HuggingFaceFiles {
    /// The file may not exist: a model that is driven by token ids needs none.
    pub tokenizer: PathBuf,
    pub tokenizer_config: Option<PathBuf>,
    pub generation_config: Option<PathBuf>,
    pub chat_template: Option<ChatTemplates>,
    /// Rows of the embedding: every id must be below it.
    pub vocabulary: usize,
}
