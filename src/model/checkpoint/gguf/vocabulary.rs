//! The tokenizer's part of GGUF metadata.

use super::metadata::{Metadata, required};
use crate::model::Defect;
use crate::model::checkpoint::GgufVocabulary;

const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const MERGES: &str = "tokenizer.ggml.merges";
const MODEL: &str = "tokenizer.ggml.model";

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
    let id = |key: &str| match metadata.size(key)? {
        Some(id) if id >= vocabulary => Err(Defect::bad_value(
            key,
            id,
            format!("the vocabulary has {vocabulary} tokens"),
        )),
        id => Ok(id.and_then(|id| u32::try_from(id).ok())),
    };
    let (bos, eos, eot, pad) = (
        id("tokenizer.ggml.bos_token_id")?,
        id("tokenizer.ggml.eos_token_id")?,
        id("tokenizer.ggml.eot_token_id")?,
        id("tokenizer.ggml.padding_token_id")?,
    );
    Ok(Ok(GgufVocabulary {
        model: required(metadata.string(MODEL), MODEL)?,
        pre: metadata.string("tokenizer.ggml.pre")?,
        tokens,
        token_types,
        merges: metadata.take_strings(MERGES)?.unwrap_or_default(),
        bos,
        eos,
        eot,
        pad,
        add_bos: metadata
            .boolean("tokenizer.ggml.add_bos_token")?
            .unwrap_or(false),
        chat_template: metadata.string("tokenizer.chat_template")?,
    }))
}
