//! The tokenizer in `tokenizer.json` and the files beside it.
//!
//! The `tokenizers` crate brings older forms of the file up to date; what it holds is taken from that.

mod components;
mod file;

use serde_json::Value;

use super::definition::{Definition, Kind, Token};
use crate::model::checkpoint::HuggingFaceFiles;
use crate::model::language::LanguageError;
use file::File;

pub(super) fn define(files: &HuggingFaceFiles) -> Result<Definition, LanguageError> {
    let mut file = File::read(&files.tokenizer)?;
    components::check_kind(file.object("model")?)?;
    tokenizers::canonicalize_value(&mut file.json).map_err(|error| file.unreadable(&error))?;
    let config = files
        .tokenizer_config
        .as_deref()
        .map(File::read)
        .transpose()?;
    let generation = files
        .generation_config
        .as_deref()
        .map(File::read)
        .transpose()?;

    let model = file.object("model")?;
    components::check_kind(model)?;
    components::check_bpe(model)?;
    let tokens = tokens(&file, model, files.vocabulary)?;
    let named = |key| named_token(config.as_ref(), key, &tokens);
    let (bos, eos, pad) = (named("bos_token"), named("eos_token"), named("pad_token"));
    let mut ends: Vec<u32> = eos.into_iter().collect();
    if let Some(generation) = &generation {
        ends.extend(generation.ids("eos_token_id")?);
    }
    Ok(Definition {
        merges: merges(&file, model)?,
        ignore_merges: model.get("ignore_merges").and_then(Value::as_bool) == Some(true),
        normalizers: components::normalizers(file.json.get("normalizer"))?,
        pre_tokenizer: components::pre_tokenizer(file.json.get("pre_tokenizer"))?,
        begin: components::begin(file.json.get("post_processor")),
        bos,
        eos,
        pad,
        ends,
        tokens,
    })
}

/// The tokens of `model.vocab` and `added_tokens`, by id.
fn tokens(
    file: &File,
    model: &serde_json::Map<String, Value>,
    vocabulary: usize,
) -> Result<Vec<Option<Token>>, LanguageError> {
    let mut tokens = Vec::new();
    let mut place = |id: &Value, token: Token, replaces: bool| {
        let slot = id.as_u64().and_then(|id| usize::try_from(id).ok());
        let Some(slot) = slot.filter(|&id| id < vocabulary) else {
            return Err(LanguageError::Vocabulary(format!(
                "token {:?} has the id {id}; the model has {vocabulary} rows for tokens",
                token.spelling
            )));
        };
        if tokens.len() <= slot {
            tokens.resize(slot + 1, None);
        }
        match &mut tokens[slot] {
            Some(Token { spelling, .. }) if !replaces || *spelling != token.spelling => {
                Err(LanguageError::Vocabulary(format!(
                    "tokens {spelling:?} and {:?} have the same id {id}",
                    token.spelling
                )))
            }
            empty => {
                *empty = Some(token);
                Ok(())
            }
        }
    };
    let ordinary = model
        .get("vocab")
        .and_then(Value::as_object)
        .ok_or_else(|| file.lacks("model.vocab, an object"))?;
    for (spelling, id) in ordinary {
        let token = Token {
            spelling: spelling.clone(),
            kind: Kind::Ordinary,
        };
        place(id, token, false)?;
    }
    let added = file.json.get("added_tokens").and_then(Value::as_array);
    for entry in added.into_iter().flatten() {
        let content = entry.get("content").and_then(Value::as_str);
        let (Some(content), Some(id)) = (content, entry.get("id")) else {
            return Err(file.lacks("content and id in every entry of added_tokens"));
        };
        let control = entry.get("special").and_then(Value::as_bool) == Some(true);
        let token = Token {
            spelling: content.to_owned(),
            kind: Kind::of_added(content, control),
        };
        place(id, token, true)?;
    }
    Ok(tokens)
}

fn merges(
    file: &File,
    model: &serde_json::Map<String, Value>,
) -> Result<Vec<(String, String)>, LanguageError> {
    let pairs = model.get("merges").and_then(Value::as_array);
    let pairs = pairs.ok_or_else(|| file.lacks("model.merges, an array"))?;
    pairs
        .iter()
        .map(|pair| match pair.as_array().map(Vec::as_slice) {
            Some([Value::String(left), Value::String(right)]) => Ok((left.clone(), right.clone())),
            _ => Err(file.lacks("pairs of tokens in model.merges")),
        })
        .collect()
}

/// A token that `tokenizer_config.json` names by its spelling, as a string or as an added token.
fn named_token(config: Option<&File>, key: &str, tokens: &[Option<Token>]) -> Option<u32> {
    let value = config?.json.get(key)?;
    let spelling = value.as_str().or_else(|| value.get("content")?.as_str())?;
    (0_u32..)
        .zip(tokens)
        .find(|(_, token)| {
            token
                .as_ref()
                .is_some_and(|token| token.spelling == spelling)
        })
        .map(|(id, _)| id)
}
