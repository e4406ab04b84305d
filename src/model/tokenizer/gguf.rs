//! Reads the tokenizer in a GGUF file's metadata.

use super::definition::{Added, Definition, Flags, Kind, NamedEnd, Names, Token};
use super::ends;
use super::pretokenizer;
use crate::model::checkpoint::GgufVocabulary;
use crate::model::language_error::LanguageError;

/// The only supported `tokenizer.ggml.model`: llama.cpp's name for byte-level BPE.
const BYTE_LEVEL_BPE: &str = "gpt2";

pub(super) fn define(vocabulary: &GgufVocabulary) -> Result<Definition, LanguageError> {
    if vocabulary.model != BYTE_LEVEL_BPE {
        return Err(LanguageError::Unsupported {
            what: "tokenizer",
            found: vocabulary.model.clone(),
            supported: "gpt2 (byte-level BPE)",
        });
    }
    let types = &vocabulary.token_types;
    if !types.is_empty() && types.len() != vocabulary.tokens.len() {
        return Err(LanguageError::Vocabulary(format!(
            "it has {} tokens and {} token types",
            vocabulary.tokens.len(),
            types.len()
        )));
    }
    let preparation = pretokenizer::named(vocabulary.pre.as_deref())?;
    let mut tokens = Vec::with_capacity(vocabulary.tokens.len());
    let mut added = Vec::new();
    for ((id, spelling), at) in (0_u32..).zip(&vocabulary.tokens).zip(0..) {
        let (kind, special) = kind(types.get(at).copied(), spelling);
        if kind == Kind::Added {
            added.push(Added {
                id,
                content: spelling.clone(),
                special,
                flags: Flags::default(),
            });
        }
        tokens.push(Some(Token {
            spelling: spelling.clone(),
            kind,
        }));
    }
    let merges = vocabulary.merges.iter().enumerate().map(|(rank, merge)| {
        merge
            .split_once(' ')
            .map(|(left, right)| (left.to_owned(), right.to_owned()))
            .ok_or_else(|| {
                LanguageError::Vocabulary(format!(
                    "merge {rank} is {merge:?}; two tokens with a space between are expected"
                ))
            })
    });
    let spelling = |id: Option<u32>| vocabulary.tokens.get(id? as usize).cloned();
    let end = |id: Option<u32>, place| Some(NamedEnd { id: id?, place });
    let ends = [
        end(vocabulary.eos, "tokenizer.ggml.eos_token_id"),
        end(vocabulary.eot, "tokenizer.ggml.eot_token_id"),
        end(vocabulary.eom, "tokenizer.ggml.eom_token_id"),
    ];
    Ok(Definition {
        tokens,
        added,
        merges: merges.collect::<Result<_, _>>()?,
        ignore_merges: preparation.ignore_merges,
        normalizers: preparation.normalizers,
        pre_tokenizer: preparation.pre_tokenizer,
        names: Names {
            bos: spelling(vocabulary.bos),
            eos: spelling(vocabulary.eos),
            pad: spelling(vocabulary.pad),
        },
        begin: vocabulary.bos.filter(|_| vocabulary.add_bos),
        ends: ends.into_iter().flatten().collect(),
        notes: Vec::new(),
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
