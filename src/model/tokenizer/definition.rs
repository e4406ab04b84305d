//! A tokenizer as a model's files define it, in one form for all formats, unchecked.

use tokenizers::normalizers::metaspace::MetaspaceNormalizer;
use tokenizers::pipeline::{PipelineNormalizer, PipelinePreTokenizer};

use super::decode::Lead;
use super::spelling::Spelling;

/// A tokenizer.
#[derive(Debug)]
pub(super) struct Definition {
    /// The tokens in the order of their ids; `None` is an id without a token.
    pub(super) tokens: Vec<Option<Token>>,
    /// Tokens that are matched in a text before merges apply.
    pub(super) added: Vec<Added>,
    pub(super) algorithm: Algorithm,
    /// The steps before added tokens match in a normalized text.
    pub(super) normalizers: Vec<PipelineNormalizer>,
    /// The step after it.
    pub(super) metaspace: Option<MetaspaceNormalizer>,
    pub(super) pre_tokenizer: PipelinePreTokenizer,
    pub(super) spelling: Spelling,
    /// The spaces that an answer loses at its beginning.
    pub(super) lead: Lead,
    pub(super) names: Names,
    /// The token that the tokenizer puts before every text.
    pub(super) begin: Option<u32>,
    pub(super) ends: Vec<NamedEnd>,
    /// Skipped entries of the files, one sentence each.
    pub(super) notes: Vec<String>,
}

/// How pieces of text become tokens.
#[derive(Debug)]
pub(super) enum Algorithm {
    Merges(Merges),
    /// SentencePiece: adjacent tokens are joined to the token with the highest score. Has the score of each id.
    Scores(Vec<f32>),
}

#[derive(Debug)]
pub(super) struct Merges {
    /// Pairs of spellings, the most frequent first.
    pub(super) pairs: Vec<(String, String)>,
    /// Whether a piece that is a token is taken whole, even if no merges make it.
    pub(super) ignored: bool,
    /// Whether line breaks are pieces of their own, and taken whole if they are a token.
    pub(super) lines: bool,
}

/// The spellings of tokens with a role, for chat templates.
#[derive(Clone, Debug, Default)]
pub(in crate::model) struct Names {
    pub(in crate::model) bos: Option<String>,
    pub(in crate::model) eos: Option<String>,
    pub(in crate::model) pad: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) spelling: String,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A token of ordinary text.
    Ordinary,
    /// A token of one byte, for characters that are not tokens.
    Byte(u8),
    /// A token that only matching makes.
    Added,
    /// Padding of the vocabulary.
    Unused,
}

/// An added token, with the flags of the `tokenizers` crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Added {
    pub(super) id: u32,
    pub(super) content: String,
    pub(super) special: bool,
    pub(super) flags: Flags,
}

/// The matching rules of an added token: the switches of tokenizer.json and of llama.cpp.
#[allow(clippy::struct_excessive_bools)] // each is a switch
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::model) struct Flags {
    /// Whether it matches only between characters that are not part of a word.
    pub(in crate::model) single_word: bool,
    /// Whether a match includes the white space before it.
    pub(in crate::model) lstrip: bool,
    /// Whether a match includes the white space after it.
    pub(in crate::model) rstrip: bool,
    /// Whether it matches in normalized text.
    pub(in crate::model) normalized: bool,
    /// Whether only the white space of ASCII counts.
    pub(in crate::model) ascii: bool,
}

/// An end token that a file names.
#[derive(Clone, Debug)]
pub(super) struct NamedEnd {
    pub(super) id: u32,
    /// The key, and the file if there are several.
    pub(super) place: &'static str,
}
