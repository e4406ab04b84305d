//! The tokenizer's part of GGUF metadata.

use super::metadata::{Metadata, required};
use crate::model::Defect;
use crate::model::checkpoint::GgufVocabulary;

const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const MERGES: &str = "tokenizer.ggml.merges";
const MODEL: &str = "tokenizer.ggml.model";

/// The `MODEL` that needs merges.
const BYTE_LEVEL_BPE: &str = "gpt2";

/// Pre-tokenizers with which llama.cpp begins each text where the file does not say.
const BEGUN: [&str; 11] = [
    "llama3",
    "llama-v3",
    "llama-bpe",
    "falcon3",
    "falcon-h1",
    "pixtral",
    "midm-2.0",
    "lfm2",
    "jina-v5-nano",
    "tekken",
    "chameleon",
];

/// The arrays that are read; others are passed over.
pub(super) const ARRAYS: [&str; 3] = [TOKENS, TYPES, MERGES];

/// Takes the vocabulary out of the metadata; `Err` of the inner result names the key that is missing.
pub(super) fn take(
    metadata: &mut Metadata,
    vocabulary: usize,
) -> Result<Result<GgufVocabulary, String>, Defect> {
    let Some(tokens) = metadata.take_strings(TOKENS)? else {
        return Ok(Err(TOKENS.into()));
    };
    let token_types = metadata.take_integers(TYPES)?.unwrap_or_default();
    for (key, length) in [(TOKENS, tokens.len()), (TYPES, token_types.len())] {
        let absent = length == 0 && key != TOKENS;
        if length != vocabulary && !absent {
            return Err(Defect::bad_value(
                key,
                format!("an array of {length}"),
                format!("the embedding has {vocabulary} rows"),
            ));
        }
    }
    let model = required(metadata.string(MODEL), MODEL)?;
    let merges = metadata.take_strings(MERGES)?.unwrap_or_default();
    if model == BYTE_LEVEL_BPE && merges.is_empty() {
        return Ok(Err(format!(
            "{MERGES} is missing, without which every byte is a token: take a newer conversion of the model"
        )));
    }
    let pre = metadata.string("tokenizer.ggml.pre")?;
    let begins = pre.as_deref().is_some_and(|pre| BEGUN.contains(&pre));
    // Converters write numbers that are no ids where there is no such token.
    let id = |key: &str| metadata.token(key, vocabulary);
    Ok(Ok(GgufVocabulary {
        model,
        pre,
        tokens,
        token_types,
        merges,
        bos: id("tokenizer.ggml.bos_token_id"),
        eos: id("tokenizer.ggml.eos_token_id"),
        eot: id("tokenizer.ggml.eot_token_id"),
        pad: id("tokenizer.ggml.padding_token_id"),
        add_bos: metadata
            .boolean("tokenizer.ggml.add_bos_token")?
            .unwrap_or(begins),
        chat_template: metadata.string("tokenizer.chat_template")?,
    }))
}
