//! The tokenizer's part of GGUF metadata.

use super::metadata::{Metadata, required};
use crate::model::Defect;
use crate::model::checkpoint::{ChatTemplates, GgufVocabulary};

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
        chat_template: templates(metadata)?,
    }))
}

/// The templates of the metadata: one without a name, and named ones. As in llama.cpp the one for tools serves all
/// conversations where there is no other.
fn templates(metadata: &Metadata) -> Result<Option<ChatTemplates>, Defect> {
    const KEY: &str = "tokenizer.chat_template";
    let mut each = Vec::new();
    if let Some(text) = metadata.string(KEY)? {
        each.push(("default".to_owned(), text));
    }
    let keys = metadata.keys().filter_map(|key| {
        let name = key.strip_prefix(KEY)?.strip_prefix('.')?;
        Some((name.to_owned(), key))
    });
    for (name, key) in keys {
        each.extend(metadata.string(key)?.map(|text| (name, text)));
    }
    let lacks_default = each.iter().all(|(name, _)| name != "default");
    let tools = each.iter().find(|(name, _)| name == "tool_use").cloned();
    if let Some((_, text)) = tools.filter(|_| lacks_default) {
        each.push(("default".to_owned(), text));
    }
    Ok((!each.is_empty()).then(|| ChatTemplates::named(each, KEY)))
}
