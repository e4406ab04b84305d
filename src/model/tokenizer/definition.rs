//! What a model's files say about its tokenizer, in one form for all of them, not yet checked.

use tokenizers::pipeline::{PipelineNormalizer, PipelinePreTokenizer};

/// A byte-level BPE tokenizer.
#[derive(Debug)]
pub(super) struct Definition {
    /// They are in the order of their ids; `None` is where an id stands for nothing.
    pub(super) tokens: Vec<Option<Token>>,
    /// Pairs of spellings, the most frequent first.
    pub(super) merges: Vec<(String, String)>,
    /// A piece that is a token is taken whole, even where no merges lead to it.
    pub(super) ignore_merges: bool,
    pub(super) normalizers: Vec<PipelineNormalizer>,
    pub(super) pre_tokenizer: PipelinePreTokenizer,
    pub(super) bos: Option<u32>,
    pub(super) eos: Option<u32>,
    pub(super) pad: Option<u32>,
    /// The token that the tokenizer puts before every text.
    pub(super) begin: Option<u32>,
    /// Ids that end a turn or a text.
    pub(super) ends: Vec<u32>,
}

#[derive(Clone, Debug)]
pub(super) struct Token {
    /// Ordinary tokens are spelled in the byte-level alphabet, the others as text.
    pub(super) spelling: String,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// What text is made of.
    Ordinary,
    /// Steers the model (`<|im_end|>`); never shown.
    Control,
    /// Added after training, and shown (`<think>`).
    UserDefined,
    /// Padding of the vocabulary.
    Unused,
}

impl Kind {
    /// The kind of an added token. Some models declare what begins a role's turn to be ordinary text:
    /// a spelling between `<|` and `|>` is taken for a control token all the same.
    pub(super) fn of_added(spelling: &str, control: bool) -> Self {
        let framed = |open, close| spelling.starts_with(open) && spelling.ends_with(close);
        if control || framed("<|", "|>") || framed("<｜", "｜>") {
            Self::Control
        } else {
            Self::UserDefined
        }
    }
}
