//! The tokenizer in a GGUF file's metadata.

use super::definition::{Definition, Kind, Token};
use super::pretokenizer;
use crate::model::checkpoint::GgufVocabulary;
use crate::model::language::LanguageError;

/// The only `tokenizer.ggml.model` that is read: llama.cpp's name for byte-level BPE.
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
    let tokens = vocabulary.tokens.iter().enumerate().map(|(id, spelling)| {
        Some(Token {
            spelling: spelling.clone(),
            kind: kind(types.get(id).copied(), spelling),
        })
    });
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
    Ok(Definition {
        tokens: tokens.collect(),
        merges: merges.collect::<Result<_, _>>()?,
        ignore_merges: preparation.ignore_merges,
        normalizers: preparation.normalizers,
        pre_tokenizer: preparation.pre_tokenizer,
        bos: vocabulary.bos,
        eos: vocabulary.eos,
        pad: vocabulary.pad,
        begin: vocabulary.bos.filter(|_| vocabulary.add_bos),
        ends: vocabulary.eos.into_iter().chain(vocabulary.eot).collect(),
    })
}

/// What llama.cpp's token types mean.
fn kind(token_type: Option<i32>, spelling: &str) -> Kind {
    match token_type {
        Some(3) => Kind::Control,
        Some(4) => Kind::of_added(spelling, false),
        Some(2 | 5) => Kind::Unused,
        _ => Kind::Ordinary,
    }
}
