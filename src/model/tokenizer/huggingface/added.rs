//! The added tokens of a folder: those of `tokenizer.json`, and the additions of transformers.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::file::File;
use super::ids::{slot, twice};
use crate::model::language_error::LanguageError;
use crate::model::tokenizer::definition::{Added, Flags, Kind, Token};

/// Keys of tokens that have a role.
const ROLES: [&str; 7] = [
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
];
/// Keys of tokens that are special and have no role.
const OTHERS: [&str; 2] = ["additional_special_tokens", "extra_special_tokens"];

/// The added tokens, and the vocabulary that they extend.
pub(super) struct AddedTokens<'t> {
    tokens: &'t mut Vec<Option<Token>>,
    ids: HashMap<String, u32>,
    added: Vec<Added>,
    /// Rows of the model's embedding.
    rows: usize,
    notes: Vec<String>,
}

impl<'t> AddedTokens<'t> {
    /// Reads those of `tokenizer.json`.
    pub(super) fn read(
        file: &File,
        tokens: &'t mut Vec<Option<Token>>,
        rows: usize,
    ) -> Result<Self, LanguageError> {
        let ids = (0_u32..).zip(tokens.iter());
        let ids = ids.filter_map(|(id, token)| Some((token.as_ref()?.spelling.clone(), id)));
        let mut all = Self {
            ids: ids.collect(),
            tokens,
            added: Vec::new(),
            rows,
            notes: Vec::new(),
        };
        let entries = file.json.get("added_tokens").and_then(Value::as_array);
        for entry in entries.into_iter().flatten() {
            let content = entry.get("content").and_then(Value::as_str);
            let (Some(content), Some(id)) = (content, entry.get("id")) else {
                return Err(file.lacks("content and id in every entry of added_tokens"));
            };
            let id = all.place(content, id)?;
            all.put(added(id, content, entry));
        }
        Ok(all)
    }

    /// Adds those of `tokenizer_config.json` and `special_tokens_map.json`.
    pub(super) fn complete(&mut self, config: Option<&File>, map: Option<&File>) {
        let decoder = config.and_then(|file| file.json.get("added_tokens_decoder")?.as_object());
        let mut listed: Vec<_> = decoder.into_iter().flatten().collect();
        listed.sort_by_key(|(id, _)| id.parse::<u32>().unwrap_or(u32::MAX));
        for (_, entry) in listed {
            if let Some(content) = entry.get("content").and_then(Value::as_str) {
                self.add(content, entry);
            }
        }
        // transformers reads the older file only if the newer key is missing.
        let files = [config, map.filter(|_| decoder.is_none())];
        for value in files.into_iter().flatten().flat_map(special) {
            let (content, flags) = match value {
                Value::String(content) => (Some(content.as_str()), None),
                value => (value.get("content").and_then(Value::as_str), Some(value)),
            };
            let Some(content) = content else { continue };
            match self.added.iter_mut().find(|one| one.content == content) {
                Some(one) => one.special = true,
                None => self.add(content, &as_special(flags)),
            }
        }
    }

    pub(super) fn finish(self) -> (Vec<Added>, Vec<String>) {
        (self.added, self.notes)
    }

    /// Adds the token of an entry of `tokenizer.json` at its id.
    fn place(&mut self, content: &str, id: &Value) -> Result<u32, LanguageError> {
        let id = slot(content, id, self.rows)?;
        let at = id as usize;
        if self.tokens.len() <= at {
            self.tokens.resize(at + 1, None);
        }
        match &mut self.tokens[at] {
            Some(Token { spelling, .. }) if spelling != content => {
                Err(twice(spelling, content, id))
            }
            Some(_) => Ok(id),
            empty => {
                *empty = Some(of_added(content));
                self.ids.insert(content.to_owned(), id);
                Ok(id)
            }
        }
    }

    /// Adds a token, or changes its flags. A new one gets the next id, as in the `tokenizers` crate.
    fn add(&mut self, content: &str, entry: &Value) {
        let next = self.tokens.len();
        let known = self.ids.get(content).copied();
        let id = known.or_else(|| u32::try_from(next).ok().filter(|_| next < self.rows));
        let Some(id) = id.filter(|_| !content.is_empty()) else {
            self.notes.push(format!(
                "tokenizer_config.json: the token {content:?} is skipped, because the model has no row for it"
            ));
            return;
        };
        if known.is_none() {
            self.tokens.push(Some(of_added(content)));
            self.ids.insert(content.to_owned(), id);
        }
        self.put(added(id, content, entry));
    }

    fn put(&mut self, token: Added) {
        match self.added.iter_mut().find(|one| one.id == token.id) {
            Some(one) => *one = token,
            None => self.added.push(token),
        }
    }
}

/// Returns the special tokens that a file names: texts, or objects with flags.
fn special(file: &File) -> Vec<&Value> {
    let mut named: Vec<_> = ROLES.iter().filter_map(|key| file.json.get(key)).collect();
    for key in OTHERS {
        match file.json.get(key) {
            Some(Value::Array(several)) => named.extend(several),
            Some(Value::Object(several)) => named.extend(several.values()),
            _ => {}
        }
    }
    named
}

/// Returns the flags of a token that a file declares special by its key.
fn as_special(flags: Option<&Value>) -> Value {
    let mut entry = flags
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_else(Map::new);
    entry.insert("special".into(), true.into());
    entry.into()
}

fn of_added(content: &str) -> Token {
    Token {
        spelling: content.to_owned(),
        kind: Kind::Added,
    }
}

fn added(id: u32, content: &str, entry: &Value) -> Added {
    let flag = |key: &str| entry.get(key).and_then(Value::as_bool);
    let special = flag("special") == Some(true);
    Added {
        id,
        content: content.to_owned(),
        special,
        flags: Flags {
            single_word: flag("single_word") == Some(true),
            lstrip: flag("lstrip") == Some(true),
            rstrip: flag("rstrip") == Some(true),
            normalized: flag("normalized").unwrap_or(!special),
            ascii: false,
        },
    }
}
