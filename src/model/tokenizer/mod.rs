//! Text to token ids and back: byte-level BPE, as GPT-2, Llama 3 and Qwen use it.
//!
//! A model's files are read into a `Definition`, which is checked before the `tokenizers` crate sees
//! it. That crate only ever encodes plain text: it is given no special token, so no text can become
//! one. Special tokens are matched by `special`, and only in what a chat template wrote.

mod bpe;
mod decode;
mod definition;
mod gguf;
mod huggingface;
mod pretokenizer;
mod special;
mod vocabulary;

pub use decode::Decoder;
pub(super) use special::{Piece, Special, Specials};

use std::fmt;
use std::sync::Arc;

use tokenizers::pipeline::{
    EncodeOptions, PipelineModel, PipelinePostProcessor, PipelineTokenizer,
};
use tokenizers::vocab::bucket_added_vocabulary::AddedVocabulary;

use super::checkpoint::LanguageSource;
use super::language::LanguageError;
use decode::Bytes;
use definition::Definition;
use vocabulary::Vocabulary;

/// A checked tokenizer.
pub(super) struct Tokenizer {
    plain: PipelineTokenizer,
    bytes: Arc<Bytes>,
    specials: Specials,
    /// Ids that end a turn or a text, ascending.
    ends: Vec<u32>,
    /// What every prompt must begin with.
    begin: Option<u32>,
    /// What a chat template knows as `bos_token`, `eos_token` and `pad_token`.
    names: Names,
    /// One more than the largest id.
    len: u32,
    /// The most bytes that one token stands for, in a prompt or in an answer.
    longest: usize,
}

/// The spellings that chat templates ask for by role.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    pub(super) bos: Option<String>,
    pub(super) eos: Option<String>,
    pub(super) pad: Option<String>,
}

impl Tokenizer {
    /// Reads and checks the tokenizer that `source` names.
    pub(super) fn load(source: &LanguageSource) -> Result<Self, LanguageError> {
        let definition = match source {
            LanguageSource::Gguf(vocabulary) => gguf::define(vocabulary)?,
            LanguageSource::HuggingFace(files) => huggingface::define(files)?,
        };
        Self::build(definition)
    }

    fn build(definition: Definition) -> Result<Self, LanguageError> {
        let vocabulary = Vocabulary::check(definition.tokens, &definition.merges)?;
        let names = Names {
            bos: vocabulary.name("bos_token", definition.bos)?,
            eos: vocabulary.name("eos_token", definition.eos)?,
            pad: vocabulary.name("pad_token", definition.pad)?,
        };
        vocabulary.name("the token that begins a prompt", definition.begin)?;
        let mut ends = vocabulary.usual_ends();
        for &end in &definition.ends {
            vocabulary.name("an end token", Some(end))?;
            ends.push(end);
        }
        ends.sort_unstable();
        ends.dedup();
        let len = vocabulary.len();
        let bytes = Arc::new(vocabulary.bytes());
        let specials = vocabulary.specials();
        let longest = bytes.longest().max(specials.longest());
        let model = bpe::model(vocabulary, definition.merges, definition.ignore_merges)?;
        let plain = PipelineTokenizer::from_parts(
            AddedVocabulary::new(),
            definition.normalizers,
            definition.pre_tokenizer,
            PipelineModel::BPE(model),
            PipelinePostProcessor::default(),
            None,
            std::collections::BTreeMap::new(),
            None,
            None,
        );
        Ok(Self {
            plain,
            bytes,
            specials,
            ends,
            begin: definition.begin,
            names,
            len,
            longest,
        })
    }

    /// Appends the ids of `text`, in which nothing is special. Bytes that the vocabulary has no token
    /// for are left out, as the original implementations do.
    pub(super) fn encode(&self, text: &str, ids: &mut Vec<u32>) {
        let mut tokens = Vec::new();
        let encoded = self
            .plain
            .encode_into(text, &EncodeOptions::no_specials(), &mut tokens);
        if encoded.is_ok() {
            let known = tokens.iter().map(|token| token.id());
            ids.extend(known.filter(|&id| id < self.len));
        } else {
            // Only a text of 4 GiB is refused. Halves of it are not.
            let middle = (0..=text.len() / 2)
                .rev()
                .find(|&at| text.is_char_boundary(at) && at > 0);
            if let Some((left, right)) = middle.and_then(|at| text.split_at_checked(at)) {
                self.encode(left, ids);
                self.encode(right, ids);
            }
        }
    }

    pub(super) fn decoder(&self) -> Decoder {
        Decoder::new(self.bytes.clone())
    }

    /// What a token adds to a text; nothing for a control token.
    pub(super) fn bytes(&self, id: u32) -> &[u8] {
        self.bytes.of(id)
    }

    /// Ids that end a turn or a text, ascending.
    pub(super) fn ends(&self) -> &[u32] {
        &self.ends
    }

    pub(super) fn specials(&self) -> &Specials {
        &self.specials
    }

    pub(super) fn is_end(&self, id: u32) -> bool {
        self.ends.binary_search(&id).is_ok()
    }

    pub(super) fn begin(&self) -> Option<u32> {
        self.begin
    }

    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn longest(&self) -> usize {
        self.longest
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer")
            .field("len", &self.len)
            .field("ends", &self.ends)
            .field("begin", &self.begin)
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}
