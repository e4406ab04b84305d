//! A vocabulary that has been checked against itself and its merges.
//!
//! The `tokenizers` crate indexes its tables unchecked and asserts properties of a file, so all of them are checked
//! here first.

use std::collections::{HashMap, HashSet};

use super::added;
use super::decode::Bytes;
use super::definition::{Added, Algorithm, Kind, Token};
use super::special::{Class, Special, Specials};
use super::spelling::Spelling;
use crate::model::language_error::LanguageError;

/// Ten times more than any vocabulary in use; larger ids are those of a damaged file.
const MAX_TOKENS: usize = 1 << 22;
/// The `tokenizers` crate stores a length in 16 bits.
const MAX_SPELLING: usize = u16::MAX as usize;

#[derive(Debug)]
pub(super) struct Vocabulary {
    /// The tokens in the order of their ids.
    tokens: Vec<Option<Token>>,
    added: Vec<Added>,
    classes: HashMap<u32, Class>,
    /// Ordinary tokens by spelling.
    ordinary: HashMap<String, u32>,
    len: u32,
}

impl Vocabulary {
    /// Checks that spellings are unique and that every merge joins two ordinary tokens to a third. Drops merges that
    /// would make control tokens of text.
    pub(super) fn check(
        mut tokens: Vec<Option<Token>>,
        added: Vec<Added>,
        algorithm: &mut Algorithm,
        spelling: &Spelling,
    ) -> Result<Self, LanguageError> {
        let mut none = Vec::new();
        let (merges, is_scored) = match algorithm {
            Algorithm::Merges(merges) => (&mut merges.pairs, false),
            Algorithm::Scores(_) => (&mut none, true),
        };
        let len = u32::try_from(tokens.len())
            .ok()
            .filter(|_| (1..=MAX_TOKENS).contains(&tokens.len()))
            .ok_or_else(|| {
                damaged(format!(
                    "it has {} tokens; 1 to {MAX_TOKENS} are possible",
                    tokens.len()
                ))
            })?;
        let by_spelling = index(&tokens, is_scored)?;
        let (classes, made) = added::classify(&added, merges, spelling);
        for token in &added {
            if let Some(Some(own)) = tokens.get_mut(token.id as usize) {
                own.kind = if made.contains(&token.id) && !is_scored {
                    Kind::Ordinary
                } else {
                    Kind::Added
                };
            }
        }
        let mut ordinary = HashMap::with_capacity(tokens.len());
        let becomes = |id: u32, kind| match kind {
            Kind::Ordinary | Kind::Byte(_) => true,
            // SentencePiece joins to every token. No text becomes a control token.
            Kind::Unused => is_scored,
            Kind::Added => is_scored && classes.get(&id) == Some(&Class::Text),
        };
        for (token, id) in by_spelling {
            let kind = tokens.get(id as usize).and_then(Option::as_ref);
            let kind = kind.map(|token| token.kind);
            if kind.is_some_and(|kind| becomes(id, kind)) && spelling.is_reachable(&token) {
                ordinary.insert(token, id);
            }
        }
        if ordinary.is_empty() {
            return Err(damaged("it has no token for any byte of text".into()));
        }
        for (rank, (left, right)) in merges.iter().enumerate() {
            let product = [left.as_str(), right.as_str()].concat();
            for part in [left, right, &product] {
                if !ordinary.contains_key(part) {
                    return Err(damaged(format!(
                        "merge {rank} names {part:?}, which is not a token of ordinary text"
                    )));
                }
            }
        }
        Ok(Self {
            tokens,
            added,
            classes,
            ordinary,
            len,
        })
    }

    /// Returns one more than the largest id.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Returns the spelling of a token; `None` for an id without a token.
    pub(super) fn spelling(&self, id: u32) -> Option<&str> {
        let token = self.tokens.get(id as usize)?.as_ref()?;
        (token.kind != Kind::Unused).then_some(token.spelling.as_str())
    }

    /// Returns the id of a control token.
    pub(super) fn control(&self, spelling: &str) -> Option<u32> {
        let mut added = self.added.iter();
        let id = added.find(|token| token.content == spelling)?.id;
        (self.class(id) == Class::Control).then_some(id)
    }

    /// Returns the control tokens and those of a template's structure.
    pub(super) fn specials(&self) -> Specials {
        Specials::new(self.matched().filter(|one| one.class != Class::Text))
    }

    /// Returns the tokens that match in the original text.
    pub(super) fn raw(&self) -> Specials {
        Specials::new(self.matched().filter(|one| !one.flags.normalized))
    }

    /// Returns the tokens that are text and match in a normalized text; `normalize` converts their spellings.
    pub(super) fn normalized(&self, normalize: impl Fn(&str) -> String) -> Specials {
        let tokens = self.matched();
        let tokens = tokens.filter(|one| one.flags.normalized && one.class == Class::Text);
        Specials::new(tokens.map(|one| Special {
            spelling: normalize(&one.spelling).into(),
            ..one
        }))
    }

    fn matched(&self) -> impl Iterator<Item = Special> {
        // A guard cannot break a spelling of one character.
        let is_guarded = |token: &&Added| {
            self.class(token.id) == Class::Text || token.content.chars().nth(1).is_some()
        };
        self.added.iter().filter(is_guarded).map(|token| Special {
            id: token.id,
            spelling: token.content.as_str().into(),
            class: self.class(token.id),
            flags: token.flags,
        })
    }

    fn class(&self, id: u32) -> Class {
        self.classes.get(&id).copied().unwrap_or(Class::Text)
    }

    /// Returns the text of each id. `normalize` converts the spellings of tokens that match in a normalized text: those
    /// of a vocabulary of text have the normalized text.
    pub(super) fn bytes(&self, spelling: &Spelling, normalize: impl Fn(&str) -> String) -> Bytes {
        let is_text = matches!(spelling, Spelling::Text(_));
        let added = self.added.iter().filter(|one| one.flags.normalized);
        let added = added.filter(|one| is_text && self.class(one.id) == Class::Text);
        let normalized: HashSet<u32> = added.map(|one| one.id).collect();
        let tokens = (0_u32..).zip(&self.tokens);
        Bytes::new(tokens.map(|(id, token)| match token {
            Some(token) if normalized.contains(&id) => spelling.added(&normalize(&token.spelling)),
            Some(token) => match token.kind {
                Kind::Ordinary => spelling.ordinary(&token.spelling),
                Kind::Byte(byte) => vec![byte],
                Kind::Added if self.class(id) == Class::Control => Vec::new(),
                Kind::Added => spelling.added(&token.spelling),
                Kind::Unused => Vec::new(),
            },
            None => Vec::new(),
        }))
    }

    /// Returns the tokens of line breaks alone.
    pub(super) fn lines(&self) -> HashMap<String, u32> {
        let all = self.ordinary.iter();
        let lines = all.filter(|(spelling, _)| spelling.bytes().all(|byte| byte == b'\n'));
        lines
            .map(|(spelling, id)| (spelling.clone(), *id))
            .collect()
    }

    /// Returns the ids of ordinary tokens by spelling.
    pub(super) fn into_ordinary(self) -> HashMap<String, u32> {
        self.ordinary
    }
}

fn damaged(what: String) -> LanguageError {
    LanguageError::Vocabulary(what)
}

/// Indexes tokens by spelling: those in use, or all.
fn index(tokens: &[Option<Token>], all: bool) -> Result<HashMap<String, u32>, LanguageError> {
    let mut by_spelling = HashMap::with_capacity(tokens.len());
    for (id, token) in (0_u32..).zip(tokens) {
        let Some(Token { spelling, kind }) = token else {
            continue;
        };
        if spelling.is_empty() || (*kind == Kind::Unused && !all) {
            continue;
        }
        if spelling.len() > MAX_SPELLING {
            let bytes = spelling.len();
            return Err(damaged(format!(
                "token {id} is {bytes} bytes long; {MAX_SPELLING} are possible"
            )));
        }
        if let Some(other) = by_spelling.insert(spelling.clone(), id) {
            return Err(damaged(format!(
                "tokens {other} and {id} are both spelled {spelling:?}"
            )));
        }
    }
    Ok(by_spelling)
}
