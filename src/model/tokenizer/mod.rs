//! Text to token ids and back: byte-level BPE, as in GPT-2, Llama 3 and Qwen. Files become a checked `Definition`; the
//! `tokenizers` crate encodes plain text, and `special` matches added tokens.
//! Not here: chat templates and conversations.

mod added;
mod bpe;
mod decode;
mod definition;
mod ends;
mod gguf;
mod huggingface;
mod pretokenizer;
mod special;
mod vocabulary;

pub use decode::Decoder;
pub(super) use definition::Names;
pub(super) use special::{Class, Piece, Special, Specials};

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use tokenizers::pipeline::{
    EncodeOptions, PipelineModel, PipelineNormalizer, PipelinePostProcessor, PipelineTokenizer,
    normalize_all,
};
use tokenizers::vocab::bucket_added_vocabulary::AddedVocabulary;

use super::checkpoint::LanguageSource;
use super::language_error::LanguageError;
use decode::Bytes;
use definition::Definition;
use vocabulary::Vocabulary;

/// A checked tokenizer.
pub(super) struct Tokenizer {
    /// Encodes normalized text without added tokens.
    plain: PipelineTokenizer,
    normalizers: Vec<PipelineNormalizer>,
    bytes: Arc<Bytes>,
    /// Control tokens and those of a template's structure.
    specials: Specials,
    /// Added tokens that match in the original text.
    raw: Specials,
    /// Tokens that are text and match in a normalized text.
    normalized: Specials,
    /// Ids that end a turn or a text, ascending.
    ends: Vec<u32>,
    /// The token that every prompt must begin with.
    begin: Option<u32>,
    /// The chat templates' `bos_token`, `eos_token` and `pad_token`.
    names: Names,
    /// One more than the largest id.
    len: u32,
    /// The most bytes of one token, in a prompt or in an answer.
    longest: usize,
    notes: Vec<String>,
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

    fn build(mut definition: Definition) -> Result<Self, LanguageError> {
        let vocabulary =
            Vocabulary::check(definition.tokens, definition.added, &mut definition.merges)?;
        let mut notes = definition.notes;
        let (ends, skipped) = ends::union(
            &definition.ends,
            |id| vocabulary.spelling(id),
            |spelling| vocabulary.control(spelling),
        );
        notes.extend(skipped);
        let begin = definition.begin;
        let begin = begin.filter(|begin| vocabulary.spelling(*begin).is_some());
        if let (Some(named), None) = (definition.begin, begin) {
            notes.push(format!(
                "the token that begins a prompt is skipped, because {named} is not the id of a token"
            ));
        }
        let len = vocabulary.len();
        let bytes = Arc::new(vocabulary.bytes());
        let (specials, raw) = (vocabulary.specials(), vocabulary.raw());
        let normalizers = definition.normalizers;
        let normalized = vocabulary.normalized(|spelling| normalize(&normalizers, spelling, 1));
        let longest = [&specials, &raw, &normalized].map(Specials::longest);
        let longest = longest.into_iter().fold(bytes.longest(), usize::max);
        let model = bpe::model(vocabulary, definition.merges, definition.ignore_merges)?;
        let plain = PipelineTokenizer::from_parts(
            AddedVocabulary::new(),
            Vec::new(),
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
            normalizers,
            bytes,
            specials,
            raw,
            normalized,
            ends,
            begin,
            names: definition.names,
            len,
            longest,
            notes,
        })
    }

    /// Appends the ids of `text`, in which only tokens that are text match. Bytes without a token are left out, as in
    /// the original implementations.
    pub(super) fn encode(&self, text: &str, ids: &mut Vec<u32>) {
        let is_text = |special: &Special| special.class == Class::Text;
        for piece in self.raw.matches(text, is_text) {
            let plain = match piece {
                Piece::Special(special, _) => {
                    ids.push(special.id);
                    continue;
                }
                Piece::Plain(plain) => plain,
            };
            let plain = normalize(&self.normalizers, plain, 0);
            for piece in self.normalized.matches(&plain, is_text) {
                match piece {
                    Piece::Special(special, _) => ids.push(special.id),
                    Piece::Plain(plain) => self.encode_plain(plain, ids),
                }
            }
        }
    }

    /// Splits a text that a chat template wrote at the control tokens and those of its structure.
    pub(super) fn cut<'a>(&'a self, text: &'a str) -> Vec<Piece<'a>> {
        let late = |special: &Special| special.flags.normalized;
        let pieces = self.raw.matches(text, |_| true).into_iter();
        let pieces = pieces.flat_map(|piece| match piece {
            Piece::Plain(plain) => self.specials.matches(plain, late),
            // Text is split again when it is encoded, except for a token of which an earlier match has taken a part.
            Piece::Special(special, span)
                if special.class == Class::Text && span.len() >= special.spelling.len() =>
            {
                vec![Piece::Plain(span)]
            }
            special @ Piece::Special(..) => vec![special],
        });
        pieces.collect()
    }

    /// Appends the ids of normalized text.
    fn encode_plain(&self, text: &str, ids: &mut Vec<u32>) {
        let mut tokens = Vec::new();
        let encoded = self
            .plain
            .encode_into(text, &EncodeOptions::no_specials(), &mut tokens);
        if encoded.is_ok() {
            let known = tokens.iter().map(|token| token.id());
            ids.extend(known.filter(|&id| id < self.len));
        } else {
            // Only a text of 4 GiB is refused. Its halves are not.
            let middle = (0..=text.len() / 2)
                .rev()
                .find(|&at| text.is_char_boundary(at) && at > 0);
            if let Some((left, right)) = middle.and_then(|at| text.split_at_checked(at)) {
                self.encode_plain(left, ids);
                self.encode_plain(right, ids);
            }
        }
    }

    pub(super) fn decoder(&self) -> Decoder {
        Decoder::new(self.bytes.clone())
    }

    /// Returns the text of a token; empty for a control token.
    pub(super) fn bytes(&self, id: u32) -> &[u8] {
        self.bytes.of(id)
    }

    /// Returns the ids that end a turn or a text, ascending.
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

    /// Returns notes on skipped parts of the files, one sentence each.
    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn longest(&self) -> usize {
        self.longest
    }
}

/// Normalizes a text as the vocabulary requires; `offset` is its place in the whole text.
fn normalize(normalizers: &[PipelineNormalizer], text: &str, offset: usize) -> String {
    normalize_all(normalizers, text, offset).map_or_else(|_| text.to_owned(), Cow::into_owned)
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
