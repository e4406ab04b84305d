//! A tokenizer as a model's files define it, in one form for all files, unchecked.

use tokenizers::pipeline::{PipelineNormalizer, PipelinePreTokenizer};

use super::Names;

/// A byte-level BPE tokenizer.
#[derive(Debug)]
pub(super) struct Definition {
    /// In the order of the ids; `None` is an id without a token.
    pub(super) tokens: Vec<Option<Token>>,
    /// Tokens that are matched in a text before it is cut for the merges.
    pub(super) added: Vec<Added>,
    /// Pairs of spellings, the most frequent first.
    pub(super) merges: Vec<(String, String)>,
    /// A piece that is a token is taken whole, even where no merges lead to it.
    pub(super) ignore_merges: bool,
    pub(super) normalizers: Vec<PipelineNormalizer>,
    pub(super) pre_tokenizer: PipelinePreTokenizer,
    pub(super) names: Names,
    /// The token that the tokenizer puts before every text.
    pub(super) begin: Option<u32>,
    pub(super) ends: Vec<NamedEnd>,
    /// Entries of the files that are skipped, one sentence each.
    pub(super) notes: Vec<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Token {
    /// Ordinary tokens are spelled in the byte-level alphabet, the others as text.
    pub(super) spelling: String,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Text consists of such tokens.
    Ordinary,
    /// Only matching makes it.
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

/// Where an added token matches, and what a match takes: the switches of tokenizer.json.
#[allow(clippy::struct_excessive_bools)] // each is a member of the file
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::model) struct Flags {
    /// It matches only between characters that are not part of a word.
    pub(in crate::model) single_word: bool,
    /// A match takes the white space before it.
    pub(in crate::model) lstrip: bool,
    /// A match takes the white space after it.
    pub(in crate::model) rstrip: bool,
    /// It matches in normalized text.
    pub(in crate::model) normalized: bool,
}

/// An end token as a file names it.
#[derive(Clone, Debug)]
pub(super) struct NamedEnd {
    pub(super) id: u32,
    /// The key, and the file if there are several.
    pub(super) place: &'static str,
}
