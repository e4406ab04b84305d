//! Text to token ids and back: byte-level BPE, as in GPT-2, Llama 3 and Qwen, BPE over characters with a token of each
//! byte, as in Gemma and Llama 2, and SentencePiece with scores. Files become a checked `Definition`; the `tokenizers`
//! crate or `scores` encodes plain text, and `special` matches added tokens.
//! Not here: chat templates and conversations.

mod added;
mod bpe;
mod decode;
mod definition;
mod ends;
mod gguf;
mod huggingface;
mod normalizer;
mod plain;
mod pretokenizer;
mod scores;
mod special;
mod spelling;
mod vocabulary;

pub use decode::Decoder;
pub(super) use definition::Names;
pub(super) use normalizer::Place;
pub(super) use special::{Class, Piece, Special, Specials};

use std::fmt;
use std::sync::Arc;

use super::checkpoint::LanguageSource;
use super::language_error::LanguageError;
use decode::{Bytes, Lead};
use definition::Definition;
use normalizer::Normalizer;
use plain::Plain;
use spelling::Spelling;
use vocabulary::Vocabulary;

/// A checked tokenizer.
pub(super) struct Tokenizer {
    plain: Plain,
    normalizer: Normalizer,
    bytes: Arc<Bytes>,
    /// The text of each id at the beginning of an answer, if it differs there.
    first: Option<Arc<Bytes>>,
    /// The spaces that an answer loses at its beginning.
    lead: Lead,
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
        let spelling = definition.spelling;
        let vocabulary = Vocabulary::check(
            definition.tokens,
            definition.added,
            &mut definition.algorithm,
            &spelling,
        )?;
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
        let steps = Normalizer::new(definition.normalizers, definition.metaspace);
        let whole = |spelling: &str| steps.normalize(spelling, Place::Start).into_owned();
        let bytes = Arc::new(vocabulary.bytes(&spelling, whole));
        let first = (definition.lead == Lead::FirstToken)
            .then(|| Arc::new(vocabulary.bytes(&spelling.without_last_mark(), whole)));
        let (specials, raw) = (vocabulary.specials(), vocabulary.raw());
        let normalized = vocabulary.normalized(whole);
        let changes = |special: &&Special| {
            special.flags.normalized && whole(&special.spelling) != *special.spelling
        };
        if let (Spelling::Text(_), Some(special)) = (&spelling, specials.iter().find(changes)) {
            return Err(LanguageError::Unsupported {
                what: "added token",
                found: format!("{} with normalized: true", special.spelling),
                supported: "control tokens that the normalizer leaves as they are, or normalized: false",
            });
        }
        let longest = [&specials, &raw, &normalized].map(Specials::longest);
        let longest = longest.into_iter().fold(bytes.longest(), usize::max);
        let plain = Plain::new(
            definition.algorithm,
            definition.pre_tokenizer,
            vocabulary,
            &spelling,
        )?;
        Ok(Self {
            plain,
            normalizer: steps,
            bytes,
            first,
            lead: definition.lead,
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
    pub(super) fn encode(&self, text: &str, mut place: Place, ids: &mut Vec<u32>) {
        let is_text = |special: &Special| special.class == Class::Text;
        for piece in self.raw.matches(text, is_text) {
            let plain = match piece {
                Piece::Special(special, _) => {
                    ids.push(special.id);
                    place = place.after_token();
                    continue;
                }
                Piece::Plain(plain) => plain,
            };
            let plain = self.normalizer.normalize(plain, place);
            for piece in self.normalized.matches(&plain, is_text) {
                match piece {
                    Piece::Special(special, _) => ids.push(special.id),
                    Piece::Plain(plain) => {
                        let plain = self.normalizer.finish(plain, place);
                        self.plain.encode(&plain, ids);
                    }
                }
                place = place.after_token();
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

    /// Returns a decoder of answers, which loses the space that the reference decoders lose.
    pub(super) fn decoder(&self) -> Decoder {
        Decoder::new(self.bytes.clone(), self.first.clone(), self.lead)
    }

    /// Returns a decoder of a prompt's text at a place, without the space that `encode` puts before it.
    pub(super) fn text_decoder(&self, place: Place) -> Decoder {
        let lead = if self.normalizer.prefixes(place) {
            Lead::Spaces(1)
        } else {
            Lead::Kept
        };
        Decoder::new(self.bytes.clone(), None, lead)
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
