//! Reads the tokenizer in a GGUF file's metadata, as llama.cpp interprets it.

use tokenizers::normalizers::prepend::Prepend;
use tokenizers::normalizers::replace::Replace;
use tokenizers::pipeline::{PipelineNormalizer, PipelinePreTokenizer};

use super::decode::Lead;
use super::definition::{
    Added, Algorithm, Definition, Flags, Kind, Merges, NamedEnd, Names, Token,
};
use super::ends;
use super::pretokenizer::{self, Preparation};
use super::spelling::{self, Marks, Spelling};
use crate::model::checkpoint::GgufVocabulary;
use crate::model::language_error::LanguageError;

/// SentencePiece's mark of a space.
const MARK: &str = "▁";
/// Tokens that do not take the white space after them in a model whose special tokens do.
const KEEP_SPACE: [&str; 3] = ["<unk>", "<s>", "<|endoftext|>"];

pub(super) fn define(vocabulary: &GgufVocabulary) -> Result<Definition, LanguageError> {
    let (algorithm, preparation) = algorithm(vocabulary)?;
    let is_text = vocabulary.model != "gpt2";
    let types = &vocabulary.token_types;
    if !types.is_empty() && types.len() != vocabulary.tokens.len() {
        return Err(LanguageError::Vocabulary(format!(
            "it has {} tokens and {} token types",
            vocabulary.tokens.len(),
            types.len()
        )));
    }
    // llama.cpp takes `</s>` for a tag of HTML in Gemma 4.
    let is_tag = |spelling: &str| {
        let mut all = vocabulary.tokens.iter();
        spelling == "</s>" && all.any(|token| token == "<|tool_response>")
    };
    let mut tokens = Vec::with_capacity(vocabulary.tokens.len());
    let mut added = Vec::new();
    for ((id, spelling), at) in (0_u32..).zip(&vocabulary.tokens).zip(0..) {
        let (kind, special) = match (types.get(at).copied(), spelling::byte(spelling)) {
            (Some(6), Some(byte)) if is_text => (Kind::Byte(byte), false),
            _ if is_tag(spelling) => (Kind::Ordinary, false),
            (token_type, _) => kind(token_type, spelling),
        };
        if kind == Kind::Added {
            let strips = vocabulary.strips && !KEEP_SPACE.contains(&spelling.as_str());
            added.push(Added {
                id,
                content: spelling.clone(),
                special,
                flags: Flags {
                    rstrip: strips,
                    ascii: true,
                    ..Flags::default()
                },
            });
        }
        tokens.push(Some(Token {
            spelling: spelling.clone(),
            kind,
        }));
    }
    let spelling = |id: Option<u32>| vocabulary.tokens.get(id? as usize).cloned();
    let end = |id: Option<u32>, place| Some(NamedEnd { id: id?, place });
    let ends = [
        end(vocabulary.eos, "tokenizer.ggml.eos_token_id"),
        end(vocabulary.eot, "tokenizer.ggml.eot_token_id"),
        end(vocabulary.eom, "tokenizer.ggml.eom_token_id"),
    ];
    let note = "tokenizer.ggml.add_eos_token is skipped, because an answer follows the prompt";
    Ok(Definition {
        tokens,
        added,
        algorithm,
        normalizers: preparation.normalizers,
        metaspace: None,
        pre_tokenizer: preparation.pre_tokenizer,
        spelling: if is_text {
            Spelling::Text(Marks {
                replaced: vec![(MARK.to_owned(), " ".to_owned())],
                in_added: false,
            })
        } else {
            Spelling::Bytes
        },
        lead: if vocabulary.add_space_prefix {
            Lead::Spaces(1)
        } else {
            Lead::Kept
        },
        names: Names {
            bos: spelling(vocabulary.bos),
            eos: spelling(vocabulary.eos),
            pad: spelling(vocabulary.pad),
        },
        begin: vocabulary.bos.filter(|_| vocabulary.add_bos),
        ends: ends.into_iter().flatten().collect(),
        notes: vocabulary
            .add_eos
            .then(|| note.to_owned())
            .into_iter()
            .collect(),
    })
}

/// Returns how pieces of text become tokens, and how a text becomes pieces.
fn algorithm(vocabulary: &GgufVocabulary) -> Result<(Algorithm, Preparation), LanguageError> {
    match vocabulary.model.as_str() {
        "gpt2" => {
            let preparation = pretokenizer::named(vocabulary.pre.as_deref())?;
            let merges = merges(vocabulary, preparation.ignore_merges, false)?;
            Ok((Algorithm::Merges(merges), preparation))
        }
        "gemma4" => {
            let merges = merges(vocabulary, false, true)?;
            let mut pairs = merges.pairs.iter().zip(0..);
            let of_byte = pairs.find(|((left, right), _)| {
                [left, right]
                    .into_iter()
                    .any(|part| spelling::byte(part).is_some())
            });
            if let Some((_, rank)) = of_byte {
                return Err(LanguageError::Vocabulary(format!(
                    "merge {rank} names the token of a byte"
                )));
            }
            Ok((Algorithm::Merges(merges), marks(vocabulary)?))
        }
        "llama" => {
            let (scores, count) = (&vocabulary.scores, vocabulary.tokens.len());
            if !scores.is_empty() && scores.len() != count {
                let scores = scores.len();
                return Err(LanguageError::Vocabulary(format!(
                    "it has {count} tokens and {scores} scores"
                )));
            }
            Ok((Algorithm::Scores(scores.clone()), marks(vocabulary)?))
        }
        other => Err(LanguageError::Unsupported {
            what: "tokenizer",
            found: other.to_owned(),
            supported: "gpt2 (byte-level BPE), llama (SentencePiece), gemma4",
        }),
    }
}

/// Returns the preparation of a text in which marks stand for spaces.
fn marks(vocabulary: &GgufVocabulary) -> Result<Preparation, LanguageError> {
    let prefix = vocabulary.add_space_prefix;
    let prefix = prefix.then(|| PipelineNormalizer::Prepend(Prepend::new(MARK.to_owned())));
    let marks = Replace::new(" ", MARK).map_err(|error| LanguageError::Unsupported {
        what: "normalizer",
        found: error.to_string(),
        supported: "the replacement of spaces",
    })?;
    let marks = PipelineNormalizer::Replace(marks);
    Ok(Preparation {
        normalizers: prefix.into_iter().chain([marks]).collect(),
        pre_tokenizer: PipelinePreTokenizer::None,
        ignore_merges: false,
    })
}

fn merges(
    vocabulary: &GgufVocabulary,
    ignored: bool,
    lines: bool,
) -> Result<Merges, LanguageError> {
    let pairs = vocabulary.merges.iter().enumerate().map(|(rank, merge)| {
        merge
            .split_once(' ')
            .map(|(left, right)| (left.to_owned(), right.to_owned()))
            .ok_or_else(|| {
                LanguageError::Vocabulary(format!(
                    "merge {rank} is {merge:?}; two tokens with a space between are expected"
                ))
            })
    });
    Ok(Merges {
        pairs: pairs.collect::<Result<_, _>>()?,
        ignored,
        lines,
    })
}

/// Converts llama.cpp's token type, and decides whether a token is special. The spelling of an end token takes
/// precedence over its type.
fn kind(token_type: Option<i32>, spelling: &str) -> (Kind, bool) {
    match token_type {
        Some(3) => (Kind::Added, true),
        Some(2 | 5) => (Kind::Unused, false),
        _ if ends::usual().any(|end| end == spelling) => (Kind::Added, true),
        Some(4) => (Kind::Added, false),
        _ => (Kind::Ordinary, false),
    }
}
