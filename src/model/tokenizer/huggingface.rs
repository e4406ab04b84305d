//! Reads the tokenizer in `tokenizer.json` and the related files.
//!
//! The `tokenizers` crate converts older forms of the file, and its result is read here.

mod added;
mod components;
mod decoder;
mod file;
mod ids;

use std::collections::HashSet;

use serde_json::Value;

use super::decode::Lead;
use super::definition::{Algorithm, Definition, Kind, Merges, NamedEnd, Names, Token};
use super::ends;
use super::spelling::{self, Spelling};
use crate::model::checkpoint::HuggingFaceFiles;
use crate::model::language_error::LanguageError;
use added::AddedTokens;
use components::Atoms;
use decoder::Decoding;
use file::File;
use ids::{slot, twice};

pub(super) fn define(files: &HuggingFaceFiles) -> Result<Definition, LanguageError> {
    let mut file = File::read(&files.tokenizer)?;
    components::check_kind(file.object("model")?)?;
    tokenizers::canonicalize_value(&mut file.json).map_err(|error| file.unreadable(&error))?;
    let read = |path: &Option<std::path::PathBuf>| path.as_deref().map(File::read).transpose();
    let config = read(&files.tokenizer_config)?;
    let generation = read(&files.generation_config)?;
    let map = File::sibling(&files.tokenizer, "special_tokens_map.json")?;
    let model_config = File::sibling(&files.tokenizer, "config.json")?;

    let model = file.object("model")?;
    components::check_kind(model)?;
    let atoms = components::atoms(model)?;
    let mut tokens = tokens(&file, model, files.vocabulary)?;
    let decoding = decoding(&file, atoms, &mut tokens)?;
    let mut added = AddedTokens::read(&file, &mut tokens, files.vocabulary)?;
    added.complete(config.as_ref(), map.as_ref());
    let (added, mut notes) = added.finish();
    let mut ends = Vec::new();
    for (file, place) in [
        (&config, "eos_token in tokenizer_config.json"),
        (&map, "eos_token in special_tokens_map.json"),
    ] {
        if let Some(spelling) = file.as_ref().and_then(|file| named(file, "eos_token")) {
            match with_spelling(&tokens, spelling) {
                Some(id) => ends.push(NamedEnd { id, place }),
                None => notes.push(ends::not_a_token(place, &spelling)),
            }
        }
    }
    for (file, place) in [
        (&model_config, "eos_token_id in config.json"),
        (&generation, "eos_token_id in generation_config.json"),
    ] {
        for value in file.iter().flat_map(end_ids) {
            match value.as_u64().and_then(|id| u32::try_from(id).ok()) {
                Some(id) => ends.push(NamedEnd { id, place }),
                None => notes.push(ends::not_a_token(place, value)),
            }
        }
    }
    // transformers reads the older file only if the newer key is missing.
    let newer = config
        .as_ref()
        .filter(|file| file.json.get("added_tokens_decoder").is_some());
    let role = |key: &str| {
        let of = |file: Option<&File>| named(file?, key).map(str::to_owned);
        of(newer)
            .or_else(|| of(map.as_ref()))
            .or_else(|| of(config.as_ref()))
    };
    let (normalizers, metaspace) = components::normalizers(file.json.get("normalizer"), atoms)?;
    Ok(Definition {
        algorithm: Algorithm::Merges(Merges {
            pairs: merges(&file, model)?,
            ignored: model.get("ignore_merges").and_then(Value::as_bool) == Some(true),
            lines: false,
        }),
        normalizers,
        metaspace,
        spelling: decoding.spelling,
        lead: decoding.lead,
        pre_tokenizer: components::pre_tokenizer(file.json.get("pre_tokenizer"))?,
        begin: components::begin(file.json.get("post_processor")),
        names: Names {
            bos: role("bos_token"),
            eos: role("eos_token"),
            pad: role("pad_token"),
        },
        ends,
        added,
        tokens,
        notes,
    })
}

/// Reads the tokens of `model.vocab`, by id.
fn tokens(
    file: &File,
    model: &serde_json::Map<String, Value>,
    rows: usize,
) -> Result<Vec<Option<Token>>, LanguageError> {
    let mut tokens: Vec<Option<Token>> = Vec::new();
    let ordinary = model
        .get("vocab")
        .and_then(Value::as_object)
        .ok_or_else(|| file.lacks("model.vocab, an object"))?;
    for (spelling, id) in ordinary {
        let id = slot(spelling, id, rows)?;
        let at = id as usize;
        if tokens.len() <= at {
            tokens.resize(at + 1, None);
        }
        if let Some(other) = &tokens[at] {
            return Err(twice(&other.spelling, spelling, id));
        }
        tokens[at] = Some(Token {
            spelling: spelling.clone(),
            kind: Kind::Ordinary,
        });
    }
    Ok(tokens)
}

/// Returns what the spellings of tokens mean, and marks those that are bytes.
fn decoding(
    file: &File,
    atoms: Atoms,
    tokens: &mut [Option<Token>],
) -> Result<Decoding, LanguageError> {
    if atoms == Atoms::Bytes {
        return Ok(Decoding {
            spelling: Spelling::Bytes,
            bytes: false,
            lead: Lead::Kept,
        });
    }
    check_bytes(tokens)?;
    let decoding = decoder::read(file.json.get("decoder"))?;
    for token in tokens.iter_mut().flatten() {
        if let Some(byte) = spelling::byte(&token.spelling).filter(|_| decoding.bytes) {
            token.kind = Kind::Byte(byte);
        }
    }
    Ok(decoding)
}

/// Refuses a vocabulary in which a byte of a text may have no token: the reference falls back to another token.
fn check_bytes(tokens: &[Option<Token>]) -> Result<(), LanguageError> {
    let covered = |token: &Token| match token.spelling.as_bytes() {
        [ascii] => Some(*ascii),
        // Only upper case counts.
        _ => spelling::byte(&token.spelling)
            .filter(|byte| token.spelling == format!("<0x{byte:02X}>")),
    };
    let bytes: HashSet<u8> = tokens.iter().flatten().filter_map(covered).collect();
    let mut in_text = (0x00..=0xBF).chain(0xC2..=0xF4);
    match in_text.find(|byte| !bytes.contains(byte)) {
        None => Ok(()),
        Some(byte) => Err(components::unsupported(
            "tokenizer",
            format!("BPE with byte_fallback and without the token <0x{byte:02X}>"),
            "byte_fallback with a token of each byte",
        )),
    }
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

/// Returns the spelling of a token that a file names by its role, as a string or as an added token.
fn named<'f>(file: &'f File, role: &str) -> Option<&'f str> {
    let value = file.json.get(role)?;
    value.as_str().or_else(|| value.get("content")?.as_str())
}

/// Returns the end tokens of a model, or of its language part.
fn end_ids(file: &File) -> Vec<&Value> {
    let text = file.json.get("text_config");
    let within = text.and_then(|text| text.get("eos_token_id"));
    let mut ids = file.values("eos_token_id");
    match within {
        Some(Value::Array(several)) => ids.extend(several),
        Some(Value::Null) | None => {}
        Some(one) => ids.push(one),
    }
    ids
}

fn with_spelling(tokens: &[Option<Token>], spelling: &str) -> Option<u32> {
    let is_it = |token: &&Token| token.spelling == spelling;
    let mut found = (0_u32..).zip(tokens);
    found.find_map(|(id, token)| token.as_ref().filter(is_it).map(|_| id))
}
