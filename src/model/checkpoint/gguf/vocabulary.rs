//! Reads the tokenizer's part of GGUF metadata.

use super::metadata::{Metadata, required};
use crate::model::checkpoint::language_source::GgufVocabulary;
use crate::model::checkpoint::templates::ChatTemplates;
use crate::model::error::Defect;

const TOKENS: &str = "tokenizer.ggml.tokens";
const TYPES: &str = "tokenizer.ggml.token_type";
const MERGES: &str = "tokenizer.ggml.merges";
const SCORES: &str = "tokenizer.ggml.scores";
const MODEL: &str = "tokenizer.ggml.model";

/// The `MODEL`s that need merges.
const BPE: [&str; 2] = ["gpt2", GEMMA4];
const GEMMA4: &str = "gemma4";
/// The `MODEL` that has scores.
const SENTENCE_PIECE: &str = "llama";

/// The arrays that are read; others are skipped.
pub(super) const ARRAYS: [&str; 4] = [TOKENS, TYPES, MERGES, SCORES];

/// Takes the vocabulary out of the metadata; the inner error names a missing key.
pub(super) fn take(
    metadata: &mut Metadata,
    vocabulary: usize,
) -> Result<Result<GgufVocabulary, String>, Defect> {
    let Some(tokens) = metadata.take_strings(TOKENS)? else {
        return Ok(Err(TOKENS.into()));
    };
    let token_types = metadata.take_integers(TYPES)?.unwrap_or_default();
    let model = required(metadata.string(MODEL), MODEL)?;
    let is_scored = model == SENTENCE_PIECE;
    let scores = is_scored
        .then(|| metadata.take_floats(SCORES))
        .transpose()?;
    let scores = scores.flatten().unwrap_or_default();
    let lengths = [tokens.len(), token_types.len(), scores.len()];
    for (key, length) in [TOKENS, TYPES, SCORES].into_iter().zip(lengths) {
        let absent = length == 0 && key != TOKENS;
        if length != vocabulary && !absent {
            return Err(Defect::bad_value(
                key,
                format!("an array of {length}"),
                format!("the embedding has {vocabulary} rows"),
            ));
        }
    }
    let merges = metadata.take_strings(MERGES)?.unwrap_or_default();
    if BPE.contains(&model.as_str()) && merges.is_empty() {
        return Ok(Err(format!(
            "{MERGES} is missing, without which every byte is a token: take a newer conversion of the model"
        )));
    }
    // The tokenizer checks whether the id is that of a token. Converters write -1 for none.
    let id = |key: &str| match metadata.size(key) {
        Ok(id) => id.map(|id| u32::try_from(id).unwrap_or(u32::MAX)),
        Err(_) => Some(u32::MAX),
    };
    // llama.cpp's SentencePiece has ids that apply if the file names no token.
    let or = |id: Option<u32>, usual: u32| {
        let named = id.filter(|&id| !is_scored || (id as usize) < tokens.len());
        named.or_else(|| is_scored.then_some(usual))
    };
    let (bos, eos, eot, eom, pad) = (
        or(id("tokenizer.ggml.bos_token_id"), 1),
        or(id("tokenizer.ggml.eos_token_id"), 2),
        id("tokenizer.ggml.eot_token_id"),
        id("tokenizer.ggml.eom_token_id"),
        id("tokenizer.ggml.padding_token_id"),
    );
    let pre = metadata.string("tokenizer.ggml.pre")?;
    let add_bos = metadata.boolean("tokenizer.ggml.add_bos_token")?;
    let prefix = metadata.boolean("tokenizer.ggml.add_space_prefix")?;
    let name = metadata.string("general.name").ok().flatten();
    Ok(Ok(GgufVocabulary {
        pre: pre.clone(),
        tokens,
        token_types,
        merges,
        scores,
        add_space_prefix: is_scored && prefix.unwrap_or(true),
        bos,
        eos,
        eot,
        eom,
        pad,
        // llama.cpp overrides the key of Gemma 4.
        add_bos: model == GEMMA4 || add_bos.unwrap_or_else(|| is_scored || begins(pre.as_deref())),
        add_eos: metadata
            .boolean("tokenizer.ggml.add_eos_token")?
            .unwrap_or(false),
        strips: name.is_some_and(|name| strips(&name)),
        model,
        chat_template: templates(metadata)?,
    }))
}

/// Returns the templates of the metadata: an unnamed one, and named ones. As in llama.cpp, the one for tools serves all
/// conversations if there is no other.
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

/// Whether special tokens of a model take the white space after them: llama.cpp knows Phi-3 by its name.
fn strips(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.contains("phi-3") || name.contains("phi3")
}

/// Whether a tokenizer begins each prompt with a token if its file does not say so, as in llama.cpp.
fn begins(pre: Option<&str>) -> bool {
    const BEGIN: [&str; 11] = [
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
    pre.is_some_and(|pre| BEGIN.contains(&pre))
}
